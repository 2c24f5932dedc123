"""Between round records and the rows that are stored and hashed."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fedmerit.errors import InvalidInputError, LedgerCorruptError, LedgerError
from fedmerit.ledger.file.values import real, stored, text
from fedmerit.ledger.proof.encoding import Row, encode_each
from fedmerit.records.agreement_map import clients_in
from fedmerit.records.columns import CLIENT, REJECTION, VERSION, Column, client_from, rejection_from
from fedmerit.types import RoundRecord

# What a row of each table begins with in the tree.
TABLES = ("metrics", "scores", "rejections", "agreements")


@dataclass(frozen=True)
class RoundRows:
    """The tables of one round, clients as text, with the columns that its version uses.

    Agreement is one row of bytes or none.
    """

    version: int
    metrics: Sequence[Row]
    scores: Sequence[Row]
    rejections: Sequence[Row]
    agreement: Sequence[Row]

    @classmethod
    def of(cls, record: RoundRecord) -> "RoundRows":
        """Make the rows of a record exactly as SQLite will return them."""
        return cls(
            version=VERSION,
            metrics=[
                (position, text("metric", name), real(f"metric {name}", value))
                for position, (name, value) in enumerate(record.metrics.items())
            ],
            scores=_score_rows(record),
            rejections=_rows(REJECTION, record.rejected),
            agreement=_agreement_rows(record),
        )

    @property
    def tables(self) -> tuple[Sequence[Row], ...]:
        """The tables in the order they are hashed in."""
        first = (self.metrics, self.scores, self.rejections)
        return first if self.version == 1 else (*first, self.agreement)

    def encoded(self) -> list[bytes]:
        """Return the canonical bytes of every row, in the order of the tree; see `TABLES`."""
        return [
            row
            for name, table in zip(TABLES, self.tables, strict=True)
            for row in encode_each(table, (name,))
        ]

    @property
    def clients(self) -> set[str]:
        """Every client id that occurs."""
        return {str(row[1]) for row in self.scores} | {str(row[1]) for row in self.rejections}

    def record(self, number: int) -> RoundRecord:
        """Make the record back; durations were never stored."""
        require_types("round", (number,), int)
        require_types("metric", [name for _, name, _ in map(_plain, self.metrics)], str)
        require_types("metric", [value for _, _, value in map(_plain, self.metrics)], float)
        require_types("agreement", [row[0] for row in map(_plain, self.agreement)], bytes)
        try:
            return RoundRecord(
                round=number,
                clients=tuple(map(client_from, self._values(CLIENT, self.scores))),
                rejected=tuple(map(rejection_from, self._values(REJECTION, self.rejections))),
                metrics={
                    str(name): math.nan if value is None else value
                    for _, name, value in map(_plain, self.metrics)
                },
                agreement=next((row[0] for row in map(_plain, self.agreement)), b""),
            )
        except ValueError as error:
            raise LedgerCorruptError(f"round {number} cannot be read: {error}") from error

    def client_columns(self) -> dict[str, Sequence[Any]]:
        """Return what is stored of the round's clients by column, each with its type checked."""
        return self._columns(CLIENT, self.scores)

    def _columns(
        self, columns: tuple[Column, ...], rows: Sequence[Row]
    ) -> dict[str, Sequence[Any]]:
        used = [column for column in columns if column.used_in(self.version)]
        names = [column.name for column in used]
        found: dict[str, Sequence[Any]] = {}
        found.update(zip(names, list(zip(*rows, strict=True))[1:], strict=False))
        for column in used if rows else ():
            # Not every column may be empty, but that is for the chain to find.
            require_types(column.name, found[column.name], column.sort.read)
        return found

    def _values(self, columns: tuple[Column, ...], rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
        found = self._columns(columns, rows)
        return (
            dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)
        )


def require_types(name: str, values: Iterable[object], kind: type) -> None:
    """Refuse what SQLite lets somebody put into a column of another type."""
    other = set(map(type, values)) - {kind, type(None)}
    if other:
        raise LedgerCorruptError(f"{name} must be {kind.__name__}, got {other.pop().__name__}")


def _score_rows(record: RoundRecord) -> list[Row]:
    rows = _rows(CLIENT, record.clients)
    seen: set[object] = set()
    for row in rows:
        if row[1] in seen:
            raise LedgerError(f"a client must be in a round once, got {row[1]!r} twice")
        seen.add(row[1])
    return rows


def _rows(columns: tuple[Column, ...], records: Sequence[object]) -> list[Row]:
    used = [column for column in columns if column.used_in(VERSION)]
    return [
        (position, *(stored(column, record) for column in used))
        for position, record in enumerate(records)
    ]


def _agreement_rows(record: RoundRecord) -> list[Row]:
    packed = record.agreement
    if not isinstance(packed, bytes):
        raise LedgerError(f"agreement must be bytes, got {type(packed).__name__}")
    try:
        clients = clients_in(packed)
    except InvalidInputError as error:
        raise LedgerError(str(error)) from error
    if clients > len(record.clients):
        raise LedgerError(
            f"agreement must be of the {len(record.clients)} clients of the round, got {clients}"
        )
    return [(packed,)] if packed else []


def _plain(row: Row) -> tuple[Any, ...]:
    return tuple(row)
