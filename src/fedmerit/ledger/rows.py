"""Reading the rows of a round, from a file of any version."""

import sqlite3
from functools import cache
from typing import Any

from fedmerit.columns import CLIENT, IDENTITY, REJECTION, VERSION, Column
from fedmerit.errors import LedgerCorruptError
from fedmerit.ledger.records import RoundRows

_METRICS = "SELECT position, name, value FROM metrics WHERE sequence = ? ORDER BY position"
_AGREEMENT = "SELECT pairs FROM agreements WHERE sequence = ?"
# Versions of the schema that brought the table of agreement, and the version of each round.
_AGREEMENT_SINCE, _VERSION_SINCE = 2, 3


def schema_of(connection: sqlite3.Connection) -> int:
    """Return the version of the file, which a writer may raise at any time."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def rows_of(connection: sqlite3.Connection, sequence: int) -> RoundRows:
    """Read the rows of one round, with the columns that its version uses."""

    def fetch(statement: str) -> list[tuple[Any, ...]]:
        return connection.execute(statement, (sequence,)).fetchall()

    schema = schema_of(connection)
    agreement = fetch(_AGREEMENT) if schema >= _AGREEMENT_SINCE else []
    version = 2 if agreement else 1  # of rounds that do not say
    if schema >= _VERSION_SINCE:
        (told,) = fetch("SELECT version FROM rounds WHERE sequence = ?")[0]
        if told is not None and told not in range(_VERSION_SINCE, VERSION + 1):
            raise LedgerCorruptError(
                f"version of a round must be {_VERSION_SINCE} to {VERSION} or nothing, got {told!r}"
            )
        version = version if told is None else told
    return RoundRows(
        version=version,
        metrics=fetch(_METRICS),
        scores=fetch(_query("scores", CLIENT, version)),
        rejections=fetch(_query("rejections", REJECTION, version)),
        agreement=agreement,
    )


@cache
def _query(table: str, columns: tuple[Column, ...], version: int) -> str:
    """Return what selects the columns of rounds of `version`, with the client's id as text."""
    names = [f"t.{c.name}" for c in columns if c.used_in(version) and c.sort is not IDENTITY]
    # LEFT JOIN: a score whose client is gone must show up as a gap, not disappear.
    return (
        f"SELECT t.position, c.client, {', '.join(names)} "
        f"FROM {table} t LEFT JOIN clients c ON c.number = t.client "
        "WHERE t.sequence = ? ORDER BY t.position"
    )


def stray_value(connection: sqlite3.Connection, sequence: int, version: int) -> str | None:
    """Name a column that holds something in a round of `version`, which does not use it."""
    schema = schema_of(connection)
    for table, columns in (("scores", CLIENT), ("rejections", REJECTION)):
        for column in columns:
            if column.used_in(version) or column.since > schema:
                continue
            found = connection.execute(
                f"SELECT 1 FROM {table} WHERE sequence = ? AND {column.name} IS NOT {column.blank}",
                (sequence,),
            ).fetchone()
            if found is not None:
                return f"{table} {column.name}"
    return None
