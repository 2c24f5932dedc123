"""Results as CSV: one row per round, one per client and round.

The columns of a client are those of :mod:`fedmerit.records.columns`, without pay. The bytes depend
on the configuration and the seed only: times stay out, floats are written in full.
"""

import csv
import io
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedmerit.errors import CheckpointError
from fedmerit.flags import Flag
from fedmerit.records.columns import CLIENT, FLAG, REAL, VERSION, Column
from fedmerit.types import ClientRecord, RoundRecord

# The second column is the task's metric, by its own name: accuracy, auc.
ROUND_COLUMNS = ("round", "accuracy", "loss", "clients", "rejected", "flagged")
METRIC = ROUND_COLUMNS.index("accuracy")
_FIRST = ("client", "behaviour", "num_examples")
_LEFT_OUT = ("reward",)  # a simulation may be paid for or not, and is the same


def client_columns(version: int = VERSION) -> tuple[Column, ...]:
    """Return what clients.csv tells of a client, as of a version of `records.columns`."""
    told = {c.name: c for c in CLIENT if c.since <= version and c.name not in _LEFT_OUT}
    return (*(told.pop(name) for name in _FIRST), *told.values())


def started_with(header: Sequence[str]) -> tuple[Column, ...] | None:
    """Return the columns behind the header of a clients.csv; None if no version wrote such."""
    for version in range(VERSION, 0, -1):
        columns = client_columns(version)
        if tuple(header) == ("round", *(column.name for column in columns)):
            return columns
    return None


CLIENT_COLUMNS = ("round", *(column.name for column in client_columns()))


class ResultFiles:
    """rounds.csv and clients.csv in a folder, appended to round by round.

    Files that an earlier version started are continued with the columns they have.
    """

    def __init__(self, folder: Path) -> None:
        self.paths = (folder / "rounds.csv", folder / "clients.csv")
        self._columns: tuple[Column, ...] | None = None

    def create(self, metric: str = "accuracy") -> None:
        """Start both files with their headers."""
        by_round = (*ROUND_COLUMNS[:METRIC], metric, *ROUND_COLUMNS[METRIC + 1 :])
        for path, columns in zip(self.paths, (by_round, CLIENT_COLUMNS), strict=True):
            path.write_text(_csv([columns]), encoding="utf-8", newline="")

    def append(self, record: RoundRecord) -> tuple[int, ...]:
        """Append a round and return the sizes of the files, which are on disk by then."""
        if self._columns is None:
            self._columns = started_with(self.headers()[1])
        if self._columns is None:
            raise CheckpointError(
                f"{self.paths[1]} must have the columns {', '.join(CLIENT_COLUMNS)} to be continued"
            )
        sizes = []
        clients = client_rows(record, self._columns)
        for path, rows in zip(self.paths, ([round_row(record)], clients), strict=True):
            with path.open("a", encoding="utf-8", newline="") as file:
                file.write(_csv(rows))
                file.flush()
                os.fsync(file.fileno())
                sizes.append(file.tell())
        return tuple(sizes)

    def cut(self, sizes: Sequence[int]) -> None:
        """Cut both files back to `sizes`: what an interrupted round left behind goes."""
        for path, size in zip(self.paths, sizes, strict=True):
            found = path.stat().st_size if path.is_file() else 0
            if found < size:
                raise CheckpointError(
                    f"{path} must have at least the {size} bytes of its checkpoint, got {found}"
                )
            os.truncate(path, size)

    def headers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the columns of rounds.csv and of clients.csv."""
        found = []
        for path in self.paths:
            with path.open(encoding="utf-8", errors="replace", newline="") as file:
                found.append(tuple(next(csv.reader(file), ())))
        return found[0], found[1]

    def read(self) -> tuple[list[list[str]], list[list[str]]]:
        """Return the rows of rounds.csv and of clients.csv, without their headers."""
        rows = []
        for path in self.paths:
            with path.open(encoding="utf-8", newline="") as file:
                rows.append(list(csv.reader(file))[1:])
        return rows[0], rows[1]


def round_row(record: RoundRecord) -> list[str]:
    """Return a round as a row of rounds.csv."""
    used = _used(record)
    flagged = sum(client.flagged for client in used)
    metric = next(iter(record.metrics))
    numbers = (record.metrics[metric], record.metrics["loss"])
    counts = (len(used), len(record.rejected), flagged)
    return [str(record.round), *map(_number, numbers), *map(str, counts)]


def client_rows(
    record: RoundRecord, columns: tuple[Column, ...] = client_columns()
) -> list[list[str]]:
    """Return the clients of a round as rows of clients.csv; rejected ones have no weight."""
    rejected = [
        ClientRecord(r.client, math.nan, math.nan, flag=Flag(r.kind, r.reason))
        for r in record.rejected
    ]
    return [
        [str(record.round), *(_cell(column, client) for column in columns)]
        for client in _used(record) + rejected
    ]


def _used(record: RoundRecord) -> list[ClientRecord]:
    """Leave out clients that are there to be paid although their reply was rejected."""
    return [client for client in record.clients if not math.isnan(client.weight)]


@dataclass(frozen=True)
class Share:
    """What one client, or all of one behaviour, got over a run.

    `share` is the part of all weight handed out; `fair` what equal weights would have given;
    `value` what it added to the model as a panel judged it, None without one.
    """

    name: str
    behaviour: str
    reports: int
    score: float
    weight: float
    share: float
    fair: float
    value: float | None = None


def summarise(rows: Iterable[Sequence[str]], *, by: str) -> list[Share]:
    """Add up rows of clients.csv by "client" or by "behaviour", largest share first.

    Rejected reports do not count.
    """
    key, shown = CLIENT_COLUMNS.index(by), CLIENT_COLUMNS.index("behaviour")
    score, weight = CLIENT_COLUMNS.index("score"), CLIENT_COLUMNS.index("weight")
    value = CLIENT_COLUMNS.index("value")
    groups: dict[str, list[Sequence[str]]] = {}
    for row in rows:
        if row[weight]:
            groups.setdefault(row[key], []).append(row)
    reports = sum(map(len, groups.values()))
    total = math.fsum(float(row[weight]) for group in groups.values() for row in group)
    shares = []
    for name, group in groups.items():
        given = math.fsum(float(row[weight]) for row in group)
        scores = [float(row[score]) for row in group if row[score]]
        values = [float(row[value]) for row in group if len(row) > value and row[value]]
        shares.append(
            Share(
                name=name,
                behaviour=group[0][shown],
                reports=len(group),
                score=math.fsum(scores) / len(scores) if scores else math.nan,
                weight=given / len(group),
                share=given / total if total else 0.0,
                fair=len(group) / reports,
                value=math.fsum(values) if values else None,
            )
        )
    return sorted(shares, key=lambda share: (-share.share, share.name))


def _cell(column: Column, client: ClientRecord) -> str:
    value = column.value(client)
    if column.sort is REAL:
        return _number(value)
    if column.sort is FLAG:
        return str(int(value))
    return "" if value is None else str(value)


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(float(value))


def _csv(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
