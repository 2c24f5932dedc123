"""Tables of the ledger, and how an older file is brought up to date.

``entries`` is the hash chain: one row per run started and per round recorded, in the order they
were written. All other tables hang on it. ``clients`` gives every client id a number, so that a
thousand rounds do not store the same text a thousand times.

A migration adds what a new version needs. It must leave the bytes that earlier entries were hashed
from as they are: an old round has to verify for ever.
"""

import sqlite3

from fedmerit.errors import LedgerError

APPLICATION_ID = 0x666D7274  # "fmrt", so that another program's database is not taken for a ledger

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
    """CREATE TABLE scores (
        sequence INTEGER NOT NULL REFERENCES rounds,
        position INTEGER NOT NULL,
        client INTEGER NOT NULL REFERENCES clients,
        score REAL,
        weight REAL,
        p_value REAL,
        epsilon REAL,
        flagged INTEGER NOT NULL,
        reason TEXT NOT NULL,
        reward INTEGER,
        num_examples INTEGER,
        behaviour TEXT,
        PRIMARY KEY (sequence, position)
    ) WITHOUT ROWID""",
    """CREATE TABLE rejections (
        sequence INTEGER NOT NULL REFERENCES rounds,
        position INTEGER NOT NULL,
        client INTEGER NOT NULL REFERENCES clients,
        reason TEXT NOT NULL,
        PRIMARY KEY (sequence, position)
    ) WITHOUT ROWID""",
)

_FIRST_TABLES = ("entries", "runs", "rounds", "clients", "metrics", "scores", "rejections")

# Who agrees with whom, one byte per pair (fedmerit.agreement_map).
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


# One tuple of statements per version; the version of a file is how many of them it has seen.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _TABLES + _guards(_FIRST_TABLES),
    (_AGREEMENTS, *_guards(("agreements",))),
)
TABLE_NAMES = (*_FIRST_TABLES, "agreements")
TRIGGERS = _guards(TABLE_NAMES)


def version_of(connection: sqlite3.Connection, path: str) -> int:
    """Return the schema version of a file, 0 if it is empty; refuse what is not our ledger."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner != APPLICATION_ID and (tables or version):
        raise LedgerError(f"{path} is a database, but not a fedmerit ledger")
    if version > len(MIGRATIONS):
        raise LedgerError(
            f"ledger schema must be at most {len(MIGRATIONS)}, which this version of fedmerit "
            f"knows, got {version} in {path}; use a newer fedmerit"
        )
    return version


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring an empty or older file up to the current schema, in one transaction."""
    if version_of(connection, path) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in MIGRATIONS[version_of(connection, path) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS):d}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have rolled back already
            connection.execute("ROLLBACK")
        raise


def altered(connection: sqlite3.Connection) -> str | None:
    """Name a table, index or trigger that is not as the schema has it."""
    query = "SELECT type || ' ' || name, sql FROM sqlite_master"
    reference = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for statements in MIGRATIONS:
            for statement in statements:
                reference.execute(statement)
        expected = dict(reference.execute(query).fetchall())
    finally:
        reference.close()
    found = dict(connection.execute(query).fetchall())
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            what = (
                "missing" if name not in found else "unknown" if name not in expected else "altered"
            )
            return f"{name} is {what}"
    return None
