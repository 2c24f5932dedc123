"""Reading the rows of a round, from a file of any version."""

import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from fedmerit.errors import LedgerCorruptError
from fedmerit.ledger.file.records import RoundRows
from fedmerit.ledger.file.schema import IDENTITY_BYTES, IDENTITY_SINCE, schema_of
from fedmerit.ledger.proof.entries import Identity
from fedmerit.records.columns import CLIENT, IDENTITY, REJECTION, VERSION, Column

_METRICS = "SELECT position, name, value FROM metrics WHERE sequence = ? ORDER BY position"
_AGREEMENT = "SELECT pairs FROM agreements WHERE sequence = ?"
# Versions of the schema that brought the table of agreement, and the version of each round.
_AGREEMENT_SINCE, _VERSION_SINCE = 2, 3
_ROOM = ("count", "size")
_SMALLEST_ROW = 6  # bytes: its place in the page, its length, its number, and a header


def every_row(
    connection: sqlite3.Connection, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()
) -> list[tuple[Any, ...]]:
    """Return all rows of an answer, which are no more than the file has room for.

    In a file that somebody made, pages of a tree may stand in it many times over.
    """
    pages, size = (connection.execute(f"PRAGMA page_{what}").fetchone()[0] for what in _ROOM)
    most = pages * size // _SMALLEST_ROW
    found = connection.execute(statement, values).fetchmany(most + 1)
    if len(found) > most:
        raise LedgerCorruptError(f"the file is damaged: it has room for {most} rows, got more")
    return found


class Reader:
    """Reads rounds in one state of the file; clients' ids are looked up once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.schema = schema_of(connection)
        self.clients: dict[int, str] = dict(
            every_row(connection, "SELECT number, client FROM clients")
        )

    def rows(self, sequence: int) -> RoundRows:
        """Read the rows of one round, with the columns that its version uses."""
        agreement = self._fetch(_AGREEMENT, sequence) if self.schema >= _AGREEMENT_SINCE else []
        version = self._version(sequence) or (2 if agreement else 1)
        return RoundRows(
            version=version,
            metrics=self._fetch(_METRICS, sequence),
            scores=self._named(_query("scores", CLIENT, version), sequence),
            rejections=self._named(_query("rejections", REJECTION, version), sequence),
            agreement=agreement,
        )

    def _version(self, sequence: int) -> int | None:
        """Return the version that a round says it has; those of the first two do not say."""
        if self.schema < _VERSION_SINCE:
            return None
        (told,) = self._fetch("SELECT version FROM rounds WHERE sequence = ?", sequence)[0]
        if told is not None and told not in range(_VERSION_SINCE, VERSION + 1):
            raise LedgerCorruptError(
                f"version of a round must be {_VERSION_SINCE} to {VERSION} or nothing, got {told!r}"
            )
        found: int | None = told
        return found

    def _named(self, statement: str, sequence: int) -> list[tuple[Any, ...]]:
        # A score whose client is gone must show up as a gap, not disappear.
        name = self.clients.get
        return [(row[0], name(row[1]), *row[2:]) for row in self._fetch(statement, sequence)]

    def _fetch(self, statement: str, sequence: int) -> list[tuple[Any, ...]]:
        return every_row(self.connection, statement, (sequence,))

    def stray_value(self, sequence: int, version: int) -> str | None:
        """Name a column that holds something in a round of `version`, which does not use it."""
        for table, columns in (("scores", CLIENT), ("rejections", REJECTION)):
            for column in columns:
                if column.used_in(version) or column.since > self.schema:
                    continue
                found = self.connection.execute(
                    f"SELECT 1 FROM {table} WHERE sequence = ? "
                    f"AND {column.name} IS NOT {column.blank}",
                    (sequence,),
                ).fetchone()
                if found is not None:
                    return f"{table} {column.name}"
        return None


@cache
def _query(table: str, columns: tuple[Column, ...], version: int) -> str:
    """Return what selects the columns of rounds of `version`, with the client's number."""
    names = [c.name for c in columns if c.used_in(version) and c.sort is not IDENTITY]
    return (
        f"SELECT position, client, {', '.join(names)} "
        f"FROM {table} WHERE sequence = ? ORDER BY position"
    )


def identity_of(connection: sqlite3.Connection) -> Identity | None:
    """Return the identity of the ledger; None in a file of before version 4."""
    if schema_of(connection) < IDENTITY_SINCE:
        return None
    found = every_row(connection, "SELECT ledger, secret FROM identity")
    if len(found) != 1:
        raise LedgerCorruptError(f"identity must hold 1 row, got {len(found)}")
    for part in found[0]:
        if not isinstance(part, bytes) or len(part) != IDENTITY_BYTES:
            raise LedgerCorruptError(f"identity must be {IDENTITY_BYTES} bytes each, got {part!r}")
    return Identity(*found[0])
