"""Tables of the ledger, and how an older file is brought up to date.

``entries`` is the hash chain: one row per run started and per round recorded, in the order they
were written. All other tables hang on it. ``clients`` gives every client id a number, so that a
thousand rounds do not store the same text a thousand times. ``identity`` has one row, drawn when
the file is made or brought to version 4: the ledger's id, which every entry since then is hashed
with, and a secret that hides the rows of a round from each other in its tree
(:mod:`fedmerit.ledger.proof.merkle`).

A migration adds what a new version needs; columns of clients and rejected replies come by
themselves (:mod:`fedmerit.records.columns`). It must leave the bytes that earlier entries were
hashed from as they are: an old round has to verify for ever.
"""

import os
import sqlite3
from collections.abc import Callable
from functools import cache

from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.records.columns import CLIENT, REJECTION, VERSION, Column

APPLICATION_ID = 0x666D7274  # "fmrt", so that another program's database is not taken for a ledger

_BY_COLUMN: dict[str, tuple[Column, ...]] = {"scores": CLIENT, "rejections": REJECTION}


def _creation(table: str) -> str:
    """Return the table as the first version had it."""
    columns = "".join(f"        {c.sql},\n" for c in _BY_COLUMN[table] if c.since == 1)
    return (
        f"CREATE TABLE {table} (\n        sequence INTEGER NOT NULL REFERENCES rounds,\n"
        f"        position INTEGER NOT NULL,\n{columns}"
        "        PRIMARY KEY (sequence, position)\n    ) WITHOUT ROWID"
    )


def _additions(version: int) -> tuple[str, ...]:
    """Return what adds the columns that are there since `version`."""
    return tuple(
        f"ALTER TABLE {table} ADD COLUMN {column.sql}"
        for table, columns in _BY_COLUMN.items()
        for column in columns
        if column.since == version > 1
    )


def insertion(table: str, columns: tuple[Column, ...]) -> str:
    """Return the statement that takes sequence number, position and the newest columns."""
    names = ["sequence", "position", *(c.name for c in columns if c.used_in(VERSION))]
    retired = [c for c in columns if not c.used_in(VERSION) and c.required]
    values = ["?"] * len(names) + [c.blank for c in retired]
    names += [c.name for c in retired]
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)})"


_TABLES = (
    """CREATE TABLE entries (
        sequence INTEGER PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('run', 'round')),
        recorded_at INTEGER NOT NULL,
        hash BLOB NOT NULL UNIQUE,
        signature BLOB
    )""",
    """CREATE TABLE runs (
        run INTEGER PRIMARY KEY,
        sequence INTEGER NOT NULL UNIQUE REFERENCES entries,
        software TEXT NOT NULL,
        config TEXT NOT NULL,
        public_key BLOB
    )""",
    """CREATE TABLE rounds (
        sequence INTEGER PRIMARY KEY REFERENCES entries,
        run INTEGER NOT NULL REFERENCES runs,
        round INTEGER NOT NULL,
        UNIQUE (run, round)
    )""",
    """CREATE TABLE clients (
        number INTEGER PRIMARY KEY,
        client TEXT NOT NULL UNIQUE
    )""",
    """CREATE TABLE metrics (
        sequence INTEGER NOT NULL REFERENCES rounds,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        value REAL,
        PRIMARY KEY (sequence, position)
    ) WITHOUT ROWID""",
    *map(_creation, _BY_COLUMN),
)

_FIRST_TABLES = ("entries", "runs", "rounds", "clients", "metrics", "scores", "rejections")

# Who agrees with whom, one byte per pair (fedmerit.records.agreement_map).
_AGREEMENTS = """CREATE TABLE agreements (
        sequence INTEGER PRIMARY KEY REFERENCES rounds,
        pairs BLOB NOT NULL
    )"""


def _guards(tables: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse changes by accident; whoever can write the file can drop them: the chain is proof."""
    return tuple(
        f"CREATE TRIGGER {table}_refuse_{action.lower()} BEFORE {action} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        for table in tables
        for action in ("UPDATE", "DELETE")
    )


# What a round was hashed as; nothing in rounds of the first two versions, whose content shows it.
_VERSION_OF_ROUND = "ALTER TABLE rounds ADD COLUMN version INTEGER"

IDENTITY_BYTES = 32
IDENTITY_SINCE = 4
_IDENTITY = """CREATE TABLE identity (
        number INTEGER PRIMARY KEY CHECK (number = 1),
        ledger BLOB NOT NULL,
        secret BLOB NOT NULL
    )"""
# What a run was hashed as; nothing in runs of the first three versions.
_VERSION_OF_RUN = "ALTER TABLE runs ADD COLUMN version INTEGER"

# What a version adds beside columns.
_STEPS: dict[int, tuple[str, ...]] = {
    1: _TABLES + _guards(_FIRST_TABLES),
    2: (_AGREEMENTS, *_guards(("agreements",))),
    3: (_VERSION_OF_ROUND,),
    4: (_IDENTITY, *_guards(("identity",)), _VERSION_OF_RUN),
}
# One tuple of statements per version; the version of a file is how many of them it has seen.
MIGRATIONS: tuple[tuple[str, ...], ...] = tuple(
    _STEPS.get(version, ()) + _additions(version) for version in range(1, max(VERSION, *_STEPS) + 1)
)
TABLE_NAMES = (*_FIRST_TABLES, "agreements", "identity")
TRIGGERS = _guards(TABLE_NAMES)


def version_of(connection: sqlite3.Connection, path: str) -> int:
    """Return the schema version of a file, 0 if it is empty; refuse what is not our ledger."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if (owner != APPLICATION_ID and (tables or version)) or (tables and version < 1):
        raise LedgerError(f"{path} is a database, but not a fedmerit ledger")
    if version > len(MIGRATIONS):
        raise LedgerError(
            f"ledger schema must be at most {len(MIGRATIONS)}, which this version of fedmerit "
            f"knows, got {version} in {path}; use a newer fedmerit"
        )
    return version


def migrate(
    connection: sqlite3.Connection, path: str, draw: Callable[[int], bytes] = os.urandom
) -> None:
    """Bring an empty or older file up to the current schema, in one transaction.

    A file whose tables or guards are not those of its version is left as it is. `draw` gives random
    bytes, for the identity of the ledger.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection, path)
        if version:
            require_intact(connection)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        if version < IDENTITY_SINCE <= len(MIGRATIONS):
            parts = (1, draw(IDENTITY_BYTES), draw(IDENTITY_BYTES))
            connection.execute("INSERT INTO identity VALUES (?, ?, ?)", parts)
        if version < len(MIGRATIONS):
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS):d}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have rolled back already
            connection.execute("ROLLBACK")
        raise


def schema_of(connection: sqlite3.Connection) -> int:
    """Return the version of the file, which a writer may raise at any time."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def require_intact(connection: sqlite3.Connection) -> None:
    """Refuse a file whose schema was changed, before anything in it is walked."""
    changed = altered(connection)
    if changed is not None:
        raise LedgerCorruptError(f"the schema was changed: {changed}")


class Guard:
    """Looks at the schema whenever SQLite says that it was changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._counter: int | None = None  # of the schema that was looked at

    def check(self) -> None:
        """Refuse a file whose schema is not ours, or no longer."""
        counter = self._connection.execute("PRAGMA schema_version").fetchone()[0]
        if counter != self._counter:
            require_intact(self._connection)
            self._counter = counter


def altered(connection: sqlite3.Connection) -> str | None:
    """Name a table, index or trigger that is not as the schema has it.

    Only SQLite's own list is read: a view in place of a table could run for ever.
    """
    expected = _expected(MIGRATIONS[: schema_of(connection)])
    found: dict[str, str | None] = {}
    for name, statement in connection.execute(_OBJECTS):
        if name not in expected or found.get(name, statement) != statement:
            return f"{name} is unknown"
        found[name] = statement
    for name in sorted(expected):
        if expected[name] != found.get(name):
            return f"{name} is {'altered' if name in found else 'missing'}"
    return None


_OBJECTS = "SELECT type || ' ' || name, sql FROM sqlite_master"


@cache
def _expected(migrations: tuple[tuple[str, ...], ...]) -> dict[str, str | None]:
    reference = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for statements in migrations:
            for statement in statements:
                reference.execute(statement)
        return dict(reference.execute(_OBJECTS).fetchall())
    finally:
        reference.close()
