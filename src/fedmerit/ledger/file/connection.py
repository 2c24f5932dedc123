"""Opening the file, and turning what SQLite complains about into our errors."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from fedmerit.disk.lock import identity_of
from fedmerit.errors import FedMeritError, LedgerBusyError, LedgerCorruptError, LedgerError
from fedmerit.ledger.file.schema import migrate, version_of

_BUSY_SECONDS = 10.0
_BESIDE = ("-wal", "-shm", "-journal")
_PRIMARY_CODE = 0xFF  # the low byte; the rest says more about the same error
# What reading a damaged row may end in: a number where text belongs, JSON that is none, ...
_DAMAGE = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Raise errors of SQLite, and those of damaged rows, as ours, saying what could not be done."""
    try:
        yield
    except FedMeritError:
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise LedgerBusyError(f"cannot {action}: another program holds the file") from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "decode" in str(error):
            raise LedgerCorruptError(
                f"cannot {action}: {error}; the file is as it was: go on with a copy of it"
            ) from error
        raise LedgerError(f"cannot {action}: {error}") from error
    except UnicodeDecodeError as error:  # not even SQLite's complaint about the file is text
        raise LedgerCorruptError(f"cannot {action}: the file is damaged") from error
    except _DAMAGE as error:
        raise LedgerCorruptError(f"cannot {action}: the file is damaged: {error}") from error
    except MemoryError as error:
        raise LedgerError(f"cannot {action}: it does not fit into memory") from error


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """See the file as of one moment, whatever a writer does meanwhile; may be nested."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(sqlite3.Error):  # a damaged file may have ended it, or refuse even this
            connection.execute("ROLLBACK")


class Place:
    """The file and the log that a connection has open; SQLite itself would not notice them go.

    Parameters
    ----------
    path : Path
        Behind all links.
    writer : bool
        Whether the connection writes: then the log must stay as well.
    """

    def __init__(self, path: Path, *, writer: bool) -> None:
        self.path = path
        self._writer = writer
        self._file = identity_of(path)
        self._log: tuple[int, int] | None = None
        # Nothing can be written there, as on a backup, so SQLite cannot share the file either: it
        # is read as it lies, and must go on to lie there so.
        folder_writable = os.access(path.parent, os.W_OK)
        self.at_rest = not (writer or folder_writable or self._log_path.exists())
        self._state = _state(path)

    @property
    def _log_path(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    def check(self) -> None:
        """Refuse to go on where what is open is no longer what the name leads to."""
        try:
            if identity_of(self.path) != self._file:
                raise LedgerError(f"{self.path} was replaced by another file: open it again")
            if self.at_rest and (self._log_path.exists() or _state(self.path) != self._state):
                raise LedgerBusyError(f"{self.path} is being written: open it again")
            if self._writer:
                log = identity_of(self._log_path) if self._log_path.exists() else None
                if self._log is not None and log != self._log:
                    raise LedgerError(
                        f"the log of {self.path} was removed while it was being written: "
                        "open it again, and record the newest round again"
                    )
                self._log = log
        except FileNotFoundError:
            raise LedgerError(f"{self.path} was moved or removed: open it again") from None


def connect_writer(path: Path, draw: Callable[[int], bytes]) -> sqlite3.Connection:
    """Open or create the ledger at `path`, behind all links; the caller holds the writer lock."""
    with translated(f"open {path}"):
        _require_one_name(path)
        _require_files_beside(path)
        connection = _connect(path, "mode=rwc")
        try:
            version_of(connection, str(path))  # before anything in a foreign file is touched
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise LedgerError(f"{path} must support write-ahead logging, got {mode!r}")
            # FULL: the log reaches the disk before a commit returns.
            connection.execute("PRAGMA synchronous = FULL")
            # And goes into the file at every commit, as far as readers let it: whoever has the file
            # under another name, or without its log, has the rounds.
            connection.execute("PRAGMA wal_autocheckpoint = 1")
            migrate(connection, str(path), draw)
        except BaseException:
            connection.close()
            raise
    return connection


def connect_reader(place: Place) -> sqlite3.Connection:
    """Open the ledger for reading; a writer may be at work."""
    path = place.path
    with translated(f"open {path}"):
        _require_one_name(path)
        _require_files_beside(path)
        connection = _connect(path, "mode=ro" + ("&immutable=1" if place.at_rest else ""))
        try:
            connection.execute("PRAGMA query_only = ON")
            if version_of(connection, str(path)) == 0:
                raise LedgerError(f"{path} must be a ledger, got an empty file")
        except BaseException:
            connection.close()
            raise
    return connection


def existing(path: Path) -> Path:
    """Return the ledger file behind all links."""
    try:
        found = path.resolve()
        if found.is_file():
            return found
    except (OSError, RuntimeError, ValueError) as error:
        raise LedgerError(f"cannot open {str(path)!r}: {error}") from error
    raise LedgerError(f"there must be a ledger at {path}, got no such file")


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
    connection.execute("PRAGMA trusted_schema = OFF")  # nothing in the file may call functions
    return connection


def _require_one_name(path: Path) -> None:
    """Refuse hard links: the newest rounds are in a log beside the name that a writer used."""
    names = path.stat().st_nlink
    if names > 1:
        raise LedgerError(
            f"a ledger must have one name, got {names} (hard links) at {path}: "
            "copy it, or remove the other names"
        )


def _require_files_beside(path: Path) -> None:
    """Refuse what is no file where SQLite keeps its own: a pipe would never answer."""
    for ending in _BESIDE:
        beside = path.with_name(path.name + ending)
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(beside.lstat().st_mode):
                raise LedgerError(f"{beside} must be a file that SQLite wrote, got something else")


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
