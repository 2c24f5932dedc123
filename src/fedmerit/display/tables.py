"""Results as tables: printed, in a notebook, in pandas, in polars."""

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedmerit.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

# Rows of a table that a notebook shows.
MOST_SHOWN = 50
_LEFT = {"string", "bool_"}


@dataclass(frozen=True)
class Table:
    """Rows, and the names and types (Arrow's) of their columns."""

    title: str
    types: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]


class Tabular:
    """What can be shown as a table; a subclass says which, with `_table`."""

    def _table(self) -> Table:
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """Return an Arrow table; needs ``fedmerit[frames]``."""
        return to_arrow(self._table())

    def to_pandas(self) -> "pd.DataFrame":
        """Return a pandas data frame; needs ``fedmerit[frames]``."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> "pl.DataFrame":
        """Return a polars data frame; needs ``fedmerit[frames]``."""
        return to_polars(self.to_arrow())

    def _repr_html_(self) -> str:
        return to_html(self._table())

    def __str__(self) -> str:
        return to_text(self._table())


def to_arrow(table: Table) -> Any:
    """Return an Arrow table."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise _missing("pyarrow") from None
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in table.types.items()])
    return pa.Table.from_pylist(list(table.rows), schema=schema)


def to_pandas(table: Any) -> "pd.DataFrame":
    """Turn an Arrow table into a pandas data frame."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise _missing("pandas") from None
    frame: pd.DataFrame = table.to_pandas()
    return frame


def to_polars(table: Any) -> "pl.DataFrame":
    """Turn an Arrow table into a polars data frame."""
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise _missing("polars") from None
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame), "a table has columns"
    return frame


def to_html(table: Table) -> str:
    """Return an HTML table; all texts are escaped, since clients name themselves.

    Examples
    --------
    >>> shown = to_html(Table("Who", {"client": "string"}, [{"client": "<b>"}]))
    >>> "<td style='text-align:left'>&lt;b&gt;</td>" in shown
    True
    """
    return "".join(_parts(table))


def to_text(table: Table) -> str:
    """Return a table for a terminal, without columns in which nothing stands.

    Control characters in texts of strangers are shown escaped.

    Examples
    --------
    >>> types = {"client": "string", "score": "float64"}
    >>> print(to_text(Table("Who", types, [{"client": "ann", "score": 0.5}])))
    Who
    client   score
    ann     0.5000
    """
    shown = table.rows[:MOST_SHOWN]
    columns = []
    for name, kind in table.types.items():
        if not any(_stands(row.get(name)) for row in shown):
            continue
        cells = [name, *(visible(_cell(row.get(name))) for row in shown)]
        width = max(map(len, cells))
        left = kind in _LEFT
        columns.append([cell.ljust(width) if left else cell.rjust(width) for cell in cells])
    lines = [table.title, *("  ".join(row).rstrip() for row in zip(*columns, strict=True))]
    if len(table.rows) > len(shown):
        lines.append(f"the first {len(shown)} of {len(table.rows)} rows")
    return "\n".join(lines)


def _stands(value: Any) -> bool:
    return value is not None and value is not False and value != ""


def visible(text: str) -> str:
    """Return text with everything that does not print as its number."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def _parts(table: Table) -> Iterator[str]:
    shown = table.rows[:MOST_SHOWN]
    yield f"<table><caption>{html.escape(table.title)}</caption><thead><tr>"
    yield from (f"<th>{html.escape(name)}</th>" for name in table.types)
    yield "</tr></thead><tbody>"
    for row in shown:
        yield "<tr>"
        for name, kind in table.types.items():
            side = "left" if kind in _LEFT else "right"
            yield f"<td style='text-align:{side}'>{html.escape(_cell(row.get(name)))}</td>"
        yield "</tr>"
    yield "</tbody></table>"
    if len(table.rows) > len(shown):
        yield f"<p>the first {len(shown)} of {len(table.rows)} rows</p>"


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _missing(name: str) -> MissingExtraError:
    return MissingExtraError(f"data frames need {name}: pip install 'fedmerit[frames]'")
