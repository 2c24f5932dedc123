"""The tables in docs/results as rows, each with whether the code as it is would decide it again."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any

from checks import ROOT
from checks.pages.origin import expected_code
from fedmerit.errors import DataError
from fedmerit.experiments.fingerprint import read_stamp

FOLDER = ROOT / "docs" / "results"
_TABLES = re.compile(r"^<!-- tables: ([\w -]+) -->$", re.M)
_NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Rows:
    """Some rows of a table; `stale` is told where other code made one that is used."""

    name: str
    found: tuple[dict[str, Any], ...]
    stale: set[str] = field(compare=False)

    def where(self, **conditions: object) -> "Rows":
        """Keep the rows whose columns have these values, or one of them."""

        def fits(row: dict[str, Any]) -> bool:
            return all(
                row[column] in wanted if isinstance(wanted, tuple) else row[column] == wanted
                for column, wanted in conditions.items()
            )

        kept = tuple(row for row in self.found if fits(row))
        if not kept:
            raise DataError(f"{self.name} has no row with {conditions}")
        return Rows(self.name, kept, self.stale)

    def by(self, *columns: str) -> list["Rows"]:
        """Group by the values of columns, in the order of the table."""
        keys = dict.fromkeys(tuple(row[column] for column in columns) for row in self.found)
        return [self.where(**dict(zip(columns, key, strict=True))) for key in keys]

    def values(self, column: str) -> list[float]:
        """Return the numbers of a column; empty cells are left out."""
        if any(not row["current"] for row in self.found):
            self.stale.add(self.name)
        numbers = [float(row[column]) for row in self.found]
        return [number for number in numbers if not isnan(number)]

    def mean(self, column: str) -> float:
        """Return the mean of a column."""
        return fmean(self.values(column))

    def sum(self, column: str) -> float:
        """Return the sum of a column."""
        return sum(self.values(column))

    def low(self, column: str) -> float:
        """Return the least value of a column."""
        return min(self.values(column))

    def high(self, column: str) -> float:
        """Return the largest value of a column."""
        return max(self.values(column))

    def __len__(self) -> int:
        self.values("current")
        return len(self.found)


class Reader:
    """Reads results for expressions; `stale` collects those that other code made."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder, self.stale = folder, set[str]()

    def table(self, name: str) -> Rows:
        """Return the rows of NAME.csv."""
        return Rows(f"{name}.csv", tuple(read_table(self.folder / f"{name}.csv")), self.stale)

    def cell(self, name: str, column: str, *row: str, which: int = 0, under: str = "") -> float:
        """Return a number of a Markdown table in NAME.md.

        Parameters
        ----------
        name, column : str
            The page, and the head of the column.
        *row : str
            What the first cells of the row say; ``*`` is anything.
        which : int
            Which number of the cell.
        under : str
            A heading above the table, or part of it.
        """
        path = self.folder / f"{name}.md"
        if not is_current(path):
            self.stale.add(path.name)
        for heading, cells in _tables(path):
            first = [_plain(cell) for cell in list(cells.values())[: len(row)]]
            same = all(text in ("*", cell) for text, cell in zip(row, first, strict=False))
            if under in heading and same and column in cells:
                return [float(n.replace(",", "")) for n in _NUMBER.findall(cells[column])][which]
        raise DataError(f"{path.name} has no table with a column {column!r} and a row {row}")

    def ratio(self, part: str, name: str) -> float:
        """Return a measured ratio of performance.json."""
        if not is_current(self.folder / "performance.md"):
            self.stale.add("performance.md")
        parts = json.loads((self.folder / "performance.json").read_text(encoding="utf-8"))
        return float(parts[part]["ratios"][name])


def tables_of(page: Path) -> list[Path]:
    """Return the tables that a page without a stamp says it was made from."""
    found = _TABLES.search(page.read_text(encoding="utf-8"))
    return [page.with_name(f"{name}.csv") for name in found[1].split()] if found else []


@cache
def is_current(page: Path) -> bool:
    """Say whether the code as it is made a page, or all rows that it was made from."""
    beside = page.with_suffix(".csv")
    tables = [beside] if beside.is_file() else tables_of(page)
    if tables:
        return all(row["current"] for table in tables for row in read_table(table))
    stamp = read_stamp(page)
    try:
        return stamp is not None and stamp.code == stamp.sources.code
    except DataError:  # what made it is not there any more
        return False


@cache
def read_table(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, with `current`: whether the code as it is decided them."""
    expected: Callable[[dict[str, str]], str | None] = expected_code(path.stem)
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {
                **{name: _value(text) for name, text in row.items()},
                "current": _is_made(row, expected),
            }
            for row in csv.DictReader(file)
        ]


def _is_made(row: dict[str, str], expected: Callable[[dict[str, str]], str | None]) -> bool:
    code = row.get("code", "")
    return bool(code) and code == expected(row)


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    try:
        return float(text) if text else nan
    except ValueError:
        return text


def _tables(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of all tables as (heading above, cell by column)."""
    heading, head = "", []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in line.strip()[1:].removesuffix("|").split("|")]
        if not head:
            names = [_plain(cell) for cell in cells]
            # Of columns with one name, the second is "name 2".
            told = [names[: i + 1].count(name) for i, name in enumerate(names)]
            head = [name if n == 1 else f"{name} {n}" for name, n in zip(names, told, strict=True)]
        elif not set(line) <= set("|-: "):
            yield heading, dict(zip(head, cells, strict=False))


def _plain(cell: str) -> str:
    return cell.replace("*", "").replace("`", "").strip()
