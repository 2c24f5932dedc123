"""A benchmark on disk: its table, its page and its picture."""

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from math import isnan, nan
from pathlib import Path
from typing import Any

from fedmerit.disk.files import whole_file
from fedmerit.errors import DataError, MissingExtraError
from fedmerit.experiments.benchmark.base import Results, RowT
from fedmerit.experiments.fingerprint import write_page
from fedmerit.experiments.picture import save

CODE = "code"  # the column with the fingerprint of the code that decided a row


def write(
    benchmark: Results[RowT], rows: Sequence[RowT], folder: Path, command: str, inputs: str = ""
) -> list[Path]:
    """Write the rows as CSV, the page as Markdown and the picture as SVG.

    `inputs` begin with the data set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dataset = inputs.partition(" ")[0]
    stem = benchmark.stem(dataset)
    table, page, picture = (folder / f"{stem}.{kind}" for kind in ("csv", "md", "svg"))
    write_rows(table, rows)
    figure = _figure()
    benchmark.draw(rows, figure)
    save(figure, picture)
    title = f"# Benchmark: {benchmark.name}{'' if stem == benchmark.name else f', {dataset}'}"
    told = f"Written by `{command}`; every row is in [{table.name}]({table.name})."
    told += _old(benchmark, rows)
    body = f"{title}\n\n{told}\n\n![{benchmark.name}]({picture.name})\n\n{benchmark.page(rows)}\n"
    write_page(page, body, benchmark.sources, inputs)
    return [table, page, picture]


def _old(benchmark: Results[RowT], rows: Sequence[RowT]) -> str:
    """Say which rows are not by the code as it is."""
    others = Counter(code for row in rows if (code := code_of(row)) != benchmark.row_code(row))
    if not others:
        return ""
    listed = ", ".join(f"{count} by {code or 'unknown code'}" for code, count in others.items())
    return f"\n\n**Of {len(rows)} rows, other code decided {sum(others.values())}**: {listed}."


def code_of(row: object) -> str:
    """Return the fingerprint of the code that decided a row."""
    return str(getattr(row, CODE))


def write_rows(path: Path, rows: Sequence[RowT]) -> None:
    """Write dataclasses as CSV; NaN is empty."""
    with whole_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(rows[0])])  # type: ignore[arg-type]
        for row in rows:
            writer.writerow(_plain(v) for v in asdict(row).values())  # type: ignore[call-overload]


def read_rows(path: Path, kind: type[RowT]) -> list[RowT]:
    """Read what `write_rows` wrote; no rows where there is no file.

    Tables from before rows said which code decided them have no such column.
    """
    if not path.exists():
        return []
    rows = []
    with path.open(encoding="utf-8", newline="") as file:
        for line, record in enumerate(csv.DictReader(file), start=2):
            try:
                rows.append(read_row(kind, record))
            except (KeyError, ValueError) as error:
                raise DataError(f"{path}, line {line}, cannot be read: {error}") from None
    return rows


def read_row(kind: type[RowT], record: Mapping[str, str]) -> RowT:
    """Read one row; the column with the code may be missing."""
    columns: dict[str, Any] = {f.name: f.type for f in fields(kind)}  # type: ignore[arg-type]
    told = {CODE: "", **record}
    if told.keys() != columns.keys():
        raise DataError(f"columns must be {', '.join(columns)}, got {', '.join(record)}")
    return kind(**{name: _READ[columns[name]](text) for name, text in told.items()})


_READ: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: lambda text: float(text) if text else nan,
    bool: {"True": True, "False": False}.__getitem__,
}


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtraError("figures need matplotlib: pip install 'fedmerit[report]'") from None
    return Figure(figsize=(9.0, 4.2), layout="constrained")


def _plain(value: object) -> object:
    if isinstance(value, float):
        return "" if isnan(value) else f"{value:.5g}"
    return value
