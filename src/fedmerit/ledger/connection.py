"""Opening the file, and turning what SQLite complains about into our errors."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from fedmerit.errors import LedgerBusyError, LedgerCorruptError, LedgerError
from fedmerit.ledger.schema import migrate, version_of

_BUSY_SECONDS = 10.0
_PRIMARY_CODE = 0xFF  # the low byte; the rest says more about the same error


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Raise errors of SQLite as ours, saying what could not be done."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise LedgerBusyError(f"cannot {action}: another program holds the file") from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "decode" in str(error):
            raise LedgerCorruptError(f"cannot {action}: {error}") from error
        raise LedgerError(f"cannot {action}: {error}") from error
    except UnicodeDecodeError as error:  # not even SQLite's complaint about the file is text
        raise LedgerCorruptError(f"cannot {action}: the file is damaged") from error


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open or create the ledger at `path` for writing; the caller holds the writer lock."""
    with translated(f"open {path}"):
        connection = _connect(path, "mode=rwc")
        try:
            version_of(connection, str(path))  # before anything in a foreign file is touched
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise LedgerError(f"{path} must support write-ahead logging, got {mode!r}")
            # FULL: the log reaches the disk before a commit returns.
            connection.execute("PRAGMA synchronous = FULL")
            migrate(connection, str(path))
        except BaseException:
            connection.close()
            raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open the ledger at `path` for reading; a writer may be at work."""
    if not path.is_file():
        raise LedgerError(f"there must be a ledger at {path}, got no such file")
    with translated(f"open {path}"):
        connection = _connect(path, "mode=ro" + ("&immutable=1" if _at_rest(path) else ""))
        try:
            if version_of(connection, str(path)) == 0:
                raise LedgerError(f"{path} must be a ledger, got an empty file")
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(path: Path, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?{options}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,  # transactions are ours to begin and end
        check_same_thread=False,  # the ledger holds a lock of its own
    )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA recursive_triggers = ON")  # REPLACE must meet the DELETE guards too
    return connection


def _at_rest(path: Path) -> bool:
    """Whether the file lies where nothing can be written, as on a backup: then no log is needed."""
    return not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists()
