"""What every benchmark is: rows, and a page and a picture from the rows."""

import csv
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import isnan, nan
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from fedmerit.errors import DataError, MissingExtraError
from fedmerit.experiments.fingerprint import Sources, read_stamp, write_page
from fedmerit.experiments.picture import save
from fedmerit.files import whole_file
from fedmerit.simulation.datasets import Dataset

RowT = TypeVar("RowT")
Tick = Callable[[str], None]
BEHAVIOURS_MODULE, SCORERS_MODULE = "fedmerit.behaviours.registry", "fedmerit.scorers.registry"
CODE = "code"  # the column with the fingerprint of the code that decided a row


@dataclass(frozen=True)
class Table:
    """A small table for people."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def markdown(self) -> str:
        """Return the table as Markdown, floats with three decimals, NaN as a dash."""
        lines = [
            f"| {' | '.join(self.columns)} |",
            "|" + "|".join(["---"] + ["---:"] * (len(self.columns) - 1)) + "|",
            *(f"| {' | '.join(_cell(value) for value in row)} |" for row in self.rows),
        ]
        return "\n".join(lines)


class Results(ABC, Generic[RowT]):
    """One question, and how its answers are shown.

    Attributes
    ----------
    name : str
    first_seed, seeds : int
        The seeds of a full run, fixed before anything was looked at.
    row : type
        Of its rows: a dataclass.
    """

    name: ClassVar[str]
    first_seed: ClassVar[int]
    seeds: ClassVar[int]
    row: ClassVar[type[Any]]

    @property
    @abstractmethod
    def sources(self) -> Sources:
        """Where the code is that decides the rows."""

    def row_code(self, row: RowT) -> str:
        """Return the fingerprint of the code that would decide a row now."""
        del row
        return self.sources.code.digest

    @abstractmethod
    def tables(self, rows: Sequence[RowT]) -> list[Table]:
        """Summarise the rows of all seeds."""

    @abstractmethod
    def page(self, rows: Sequence[RowT]) -> str:
        """Describe settings and results in Markdown, without title and command."""

    @abstractmethod
    def draw(self, rows: Sequence[RowT], figure: Any) -> None:
        """Draw the rows on an empty matplotlib figure."""


class Benchmark(Results[RowT]):
    """A question that is answered seed by seed, on a data set.

    Attributes
    ----------
    datasets : tuple of str
        What it can run on, the default first.
    chosen : tuple
        What it chooses by name from registries.
    """

    datasets: ClassVar[tuple[str, ...]] = ("mnist",)
    chosen: ClassVar[tuple[object, ...]] = ()

    @property
    def sources(self) -> Sources:
        """All that a run calls; how results are shown is apart."""
        kind = type(self)
        return Sources.of(kind, *self.chosen, closed=(f"{kind.__module__}_page", __name__))

    @abstractmethod
    def steps(self, quick: bool) -> int:
        """Return how often `run` ticks for one seed."""

    @abstractmethod
    def run(self, seed: int, dataset: Dataset, quick: bool, tick: Tick) -> list[RowT]:
        """Run one seed; `tick` is told how far it is."""


def write(
    benchmark: Results[RowT], rows: Sequence[RowT], folder: Path, command: str, inputs: str = ""
) -> list[Path]:
    """Write the rows as CSV, the page as Markdown and the picture as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    table, page, picture = (folder / f"{benchmark.name}.{kind}" for kind in ("csv", "md", "svg"))
    write_rows(table, rows)
    figure = _figure()
    benchmark.draw(rows, figure)
    save(figure, picture)
    title = f"# Benchmark: {benchmark.name}"
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


def kept_rows(benchmark: Results[RowT], folder: Path, inputs: str) -> list[RowT]:
    """Return the rows in `folder` that the code as it is would give again."""
    stamp = read_stamp(folder / f"{benchmark.name}.md")
    if stamp is None or stamp.inputs != inputs:
        return []
    rows: list[RowT] = read_rows(folder / f"{benchmark.name}.csv", benchmark.row)
    return [row for row in rows if code_of(row) == benchmark.row_code(row)]


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
        return "" if isnan(value) else f"{value:.6g}"
    return value


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "-" if isnan(value) else f"{value:.3f}"
    return str(value)
