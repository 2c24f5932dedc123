"""Which results the code as it is would give again."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from checks.pages.results import FOLDER, is_current, read_table, tables_of
from fedmerit.errors import DataError
from fedmerit.experiments.fingerprint import read_stamp

CURRENT, OTHER, UNKNOWN = "current", "other code", "no stamp"


@dataclass(frozen=True)
class Status:
    """A page or a table: what it is, and what changed since."""

    name: str
    state: str
    told: str = ""

    def __str__(self) -> str:
        return f"{self.state:<11}{self.name:<48}{self.told}".rstrip()


def page_status(path: Path) -> Status:
    """Compare a page with the code as it is."""
    if is_current(path):
        return Status(path.name, CURRENT)
    tables = [table_status(table) for table in tables_of(path)]
    if tables:
        old = [status.name for status in tables if status.state != CURRENT]
        return Status(path.name, OTHER, f"made from {', '.join(old)}")
    stamp = read_stamp(path)
    if stamp is None:
        return Status(path.name, UNKNOWN)
    try:
        rooms = stamp.code.changed(stamp.sources.code)
    except DataError as error:
        return Status(path.name, OTHER, str(error))
    short = ", ".join(room.removeprefix("fedmerit.") for room in rooms)
    return Status(path.name, OTHER, f"fedmerit {stamp.version}; changed: {short}")


def table_status(path: Path) -> Status:
    """Count the rows of a table that the code as it is would give again."""
    rows = read_table(path)
    by_line = Counter(str(row.get("line", "rows")) for row in rows if not row["current"])
    if not by_line:
        return Status(path.name, CURRENT)
    listed = ", ".join(f"{line} {count}" for line, count in by_line.items())
    stamped = any(isinstance(row.get("code"), str) for row in rows)
    told = f"{sum(by_line.values())} of {len(rows)} rows: {listed}"
    return Status(path.name, OTHER if stamped else UNKNOWN, told)


def all_results(folder: Path = FOLDER) -> list[Status]:
    """Return the status of all pages and tables."""
    pages = [page_status(path) for path in sorted(folder.glob("*.md"))]
    return pages + [table_status(path) for path in sorted(folder.glob("*.csv"))]
