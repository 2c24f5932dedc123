"""Shared printing: tables for people, JSON for scripts, progress bars only on a terminal."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from fedmerit.display.tables import visible

console = Console()
errors = Console(stderr=True)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; numbers to the right, floats with four decimals; plain if nobody watches."""
    listed = [list(row) for row in rows]
    numeric = [
        all(isinstance(row[index], int | float) for row in listed) for index in range(len(columns))
    ]
    cells = [[_cell(value) for value in row] for row in listed]
    if not console.is_terminal:
        _print_plain(title, columns, numeric, cells)
        return
    table = Table(title=title, title_justify="left")
    for column, right in zip(columns, numeric, strict=True):
        table.add_column(column, justify="right" if right else "left")
    for row in cells:
        table.add_row(*map(escape, row))
    console.print(table)


def _print_plain(
    title: str, columns: Sequence[str], numeric: Sequence[bool], cells: list[list[str]]
) -> None:
    """Print columns side by side: a pipe has no width, so no line is folded or cut."""
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    print(title)
    for row in (columns, *cells):
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        print("  ".join(padded).rstrip())


def print_json(payload: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print `payload` as plain JSON (NaN becomes null), fit for a pipe."""
    print(json.dumps(_without_nan(payload), indent=2, ensure_ascii=False))


def progress() -> Progress:
    """Return a progress bar with time left; it draws nothing when stderr is not a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )


def shown(text: str) -> str:
    """Make text from strangers safe for a terminal: no markup, no control characters."""
    return escape(visible(text))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4f}"
    return visible(str(value))


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return value
