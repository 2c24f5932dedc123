"""The ledger itself: opening, writing and asking."""

import dataclasses
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from fedmerit.columns import CLIENT, REJECTION, VERSION
from fedmerit.errors import LedgerBusyError, LedgerError
from fedmerit.ledger.connection import connect_reader, connect_writer, translated
from fedmerit.ledger.encoding import FIRST_PREVIOUS, RUN_LABEL, entry_hash
from fedmerit.ledger.reading import (
    RunInfo,
    Selection,
    StoredRound,
    head_of,
    list_rounds,
    read_round,
    read_runs,
)
from fedmerit.ledger.records import RoundRows
from fedmerit.ledger.rows import rows_of
from fedmerit.ledger.schema import insertion
from fedmerit.ledger.signing import SigningKey
from fedmerit.ledger.summary import ClientSummary, Payout, read_payouts, read_summaries
from fedmerit.ledger.values import integer, text
from fedmerit.ledger.verification import Verification, verify
from fedmerit.lock import WriterLock
from fedmerit.types import RoundRecord

_INSERT_SCORE = insertion("scores", CLIENT)
_INSERT_REJECTION = insertion("rejections", REJECTION)


class Ledger:
    """An append-only record of rounds, open for reading or for writing.

    Use :meth:`open`, and the ledger as a context manager. Safe to use from several threads, not
    across a fork.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: WriterLock | None,
        key: SigningKey | None,
        clock: Callable[[], float],
    ) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._key = key
        self._clock = clock
        self._guard = threading.RLock()
        self._process = os.getpid()
        self._run: int | None = None
        self._numbers: dict[str, int] = {}
        # A ledger that was never closed must not lock out the next one once it is forgotten.
        self._shut = weakref.finalize(self, _shut, connection, lock)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        key: SigningKey | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Open the ledger at `path`; for writing it is created if there is none.

        Parameters
        ----------
        path : path
            The SQLite file. SQLite keeps a log (``-wal``, ``-shm``) beside it, and a writer holds
            ``.lock``.
        read_only : bool
            Open for reading only; possible while another process writes.
        key : SigningKey, optional
            Sign every entry of the runs started from here.
        clock : callable
            Seconds since 1970. The recorded time may go backwards; nothing depends on its order.

        Raises
        ------
        LedgerBusyError
            Another writer has it open.
        LedgerError
            The file is missing, is no ledger, or was written by a newer version.
        """
        file = Path(path)
        if read_only:
            return cls(file, connect_reader(file), None, None, clock)
        lock = WriterLock(file, busy=LedgerBusyError, failed=LedgerError)
        try:
            return cls(file, connect_writer(file), lock, key, clock)
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Close the file and let the next writer in; closing twice does no harm."""
        self._shut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def head(self) -> str | None:
        """Hash of the newest entry: keep it elsewhere, and nobody can shorten the ledger unseen."""
        with self._reading("read the head"):
            newest = head_of(self._connection)
        return None if newest is None else newest[1].hex()

    def start_run(self, config: Mapping[str, Any] | object, software_version: str) -> int:
        """Record a new run, to which `append` will add; return its number.

        `config` is a mapping or a dataclass of plain values; it is stored as JSON.
        """
        stored = _as_json(config)
        software = text("software_version", software_version)
        public_key = None if self._key is None else self._key.public_key
        with self._writing("start a run") as (previous, sequence, now):
            newest = self._connection.execute("SELECT max(run) FROM runs").fetchone()[0]
            run = (newest or 0) + 1
            fields = (RUN_LABEL, previous, sequence, now, run, software, stored, public_key)
            self._link(sequence, "run", now, entry_hash(fields))
            self._connection.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?)",
                (run, sequence, software, stored, public_key),
            )
        self._run = run
        return run

    def resume_run(self, run: int) -> None:
        """Let `append` add to a run that was started earlier, with the same signing key."""
        with self._reading("resume a run"):
            row = self._connection.execute(
                "SELECT public_key FROM runs WHERE run = ?", (run,)
            ).fetchone()
        if row is None:
            raise LedgerError(f"run must be one of this ledger, got {run}")
        if row[0] != (None if self._key is None else self._key.public_key):
            raise LedgerError(f"run {run} must be continued with the key it was started with")
        self._run = run

    def append(self, record: RoundRecord) -> None:
        """Record a round. When this returns, it is on the disk.

        Appending a round again that is already recorded, as a run does that resumes from a
        checkpoint, changes nothing if the record is the same and is an error if it is not.
        """
        if self._run is None:
            raise LedgerError("start_run or resume_run must come before append, got neither")
        run, rows = self._run, RoundRows.of(record)
        number = integer("round", record.round)
        numbers: dict[str, int] = {}
        with self._writing(f"record round {number}") as (previous, sequence, now):
            if self._is_recorded(run, number, rows):
                return
            numbers = self._number_clients(rows.clients)
            fields = (rows.label, previous, sequence, now, run, number)
            self._link(sequence, "round", now, entry_hash(fields, rows.tables))
            execute, many = self._connection.execute, self._connection.executemany
            execute("INSERT INTO rounds VALUES (?, ?, ?, ?)", (sequence, run, number, VERSION))
            many("INSERT INTO metrics VALUES (?, ?, ?, ?)", [(sequence, *r) for r in rows.metrics])
            for insert, table in (
                (_INSERT_SCORE, rows.scores),
                (_INSERT_REJECTION, rows.rejections),
            ):
                many(insert, [(sequence, row[0], numbers[str(row[1])], *row[2:]) for row in table])
            many("INSERT INTO agreements VALUES (?, ?)", [(sequence, *r) for r in rows.agreement])
        self._numbers.update(numbers)  # only now: a round that failed leaves no numbers behind

    def runs(self) -> list[RunInfo]:
        """Return all runs, oldest first."""
        with self._reading("read runs"):
            return read_runs(self._connection)

    def rounds(self, run: int | None = None) -> Iterator[RoundRecord]:
        """Yield the records of one run, or of all, in the order they were written."""
        for stored in self.history(run=run):
            yield stored.record

    def history(
        self, *, run: int | None = None, since: datetime | None = None, after: str | None = None
    ) -> Iterator[StoredRound]:
        """Yield rounds with their place in the chain, since a time or after an entry's hash."""
        with self._reading("list rounds"):
            listed = list_rounds(self._connection, Selection(run, since, after))
        for place in listed:
            with self._reading("read a round"):  # held for one round only: others may write between
                stored = read_round(self._connection, place)
            yield stored

    def summaries(
        self, *, run: int | None = None, since: datetime | None = None, window: int = 10
    ) -> list[ClientSummary]:
        """Summarise each client over the rounds: totals, moving average, participation."""
        with self._reading("summarise clients"):
            return read_summaries(self._connection, Selection(run, since), window)

    def payouts(
        self, *, run: int | None = None, since: datetime | None = None, after: str | None = None
    ) -> list[Payout]:
        """Add up what each client is owed since a time, or after an entry's hash.

        `after`, the head at the last payout, leaves no gap and no overlap even if the clock was
        set back in between; `since` cannot promise that.
        """
        with self._reading("list payouts"):
            return read_payouts(self._connection, Selection(run, since, after))

    def verify(self, *, head: str | None = None, public_key: bytes | None = None) -> Verification:
        """Check all stored content against the chain.

        Parameters
        ----------
        head : str, optional
            A hash remembered from earlier; it must still be in the chain.
        public_key : bytes, optional
            Every run must be signed with this key.
        """
        with self._guard:
            self._check_process()
            return verify(self._connection, head, public_key)

    @contextmanager
    def _reading(self, action: str) -> Iterator[None]:
        with self._guard, translated(action):
            self._check_process()
            yield

    @contextmanager
    def _writing(self, action: str) -> Iterator[tuple[bytes, int, int]]:
        """Run a transaction; yield previous hash, new sequence number, microseconds since 1970."""
        if self._lock is None:
            raise LedgerError(f"a ledger must be open for writing to {action}, got read-only")
        with self._guard, translated(action):
            self._check_process()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                newest = head_of(self._connection)
                sequence, previous = (0, FIRST_PREVIOUS) if newest is None else newest
                yield previous, sequence + 1, _microseconds(self._clock())
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk may have rolled back already
                    self._connection.execute("ROLLBACK")
                raise

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise LedgerError(
                f"a ledger must be used in the process that opened it, {self._process}, "
                f"got {os.getpid()}"
            )

    def _link(self, sequence: int, kind: str, now: int, digest: bytes) -> None:
        signature = None if self._key is None else self._key.sign(digest)
        self._connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (sequence, kind, now, digest, signature)
        )

    def _is_recorded(self, run: int, number: int, rows: RoundRows) -> bool:
        found = self._connection.execute(
            "SELECT sequence FROM rounds WHERE run = ? AND round = ?", (run, number)
        ).fetchone()
        if found is None:
            return False
        # As it would be recorded today: an older version may have written it.
        if RoundRows.of(rows_of(self._connection, found[0]).record(number)) != rows:
            raise LedgerError(
                f"a round is recorded once: round {number} of run {run} is there already, "
                "with other content"
            )
        return True

    def _number_clients(self, clients: set[str]) -> dict[str, int]:
        numbers = {}
        for client in sorted(clients):
            number = self._numbers.get(client)
            if number is None:
                row = self._connection.execute(
                    "SELECT number FROM clients WHERE client = ?", (client,)
                ).fetchone()
                number = row[0] if row else self._add_client(client)
            numbers[client] = number
        return numbers

    def _add_client(self, client: str) -> int:
        cursor = self._connection.execute("INSERT INTO clients (client) VALUES (?)", (client,))
        return int(cursor.lastrowid or 0)


def _shut(connection: sqlite3.Connection, lock: WriterLock | None) -> None:
    connection.close()
    if lock is not None:
        lock.release()


def _microseconds(seconds: float) -> int:
    try:
        return integer("time", round(seconds * 1e6))
    except (ValueError, OverflowError):
        raise LedgerError(f"time must be a finite number of seconds, got {seconds}") from None


def _as_json(config: Mapping[str, Any] | object) -> str:
    plain: object = config
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        plain = dataclasses.asdict(config)
    if not isinstance(plain, Mapping):
        raise LedgerError(f"config must be a mapping or a dataclass, got {config!r}")
    try:
        return text(
            "config",
            json.dumps(dict(plain), sort_keys=True, ensure_ascii=False, allow_nan=False),
        )
    except (TypeError, ValueError) as error:
        raise LedgerError(f"config must be plain values that JSON can hold: {error}") from error
