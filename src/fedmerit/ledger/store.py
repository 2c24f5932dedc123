"""The ledger itself: opening, writing and asking."""

import dataclasses
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

from fedmerit.disk.files import is_folder
from fedmerit.disk.lock import WriterLock
from fedmerit.display.tables import Table, Tabular, to_html
from fedmerit.errors import LedgerBusyError, LedgerCorruptError, LedgerError
from fedmerit.ledger.file.connection import (
    Place,
    connect_reader,
    connect_writer,
    existing,
    snapshot,
    translated,
)
from fedmerit.ledger.file.reading import (
    RunInfo,
    Selection,
    StoredRound,
    hash_at,
    head_of,
    list_rounds,
    newest_head,
    read_round,
    read_runs,
)
from fedmerit.ledger.file.records import RoundRows
from fedmerit.ledger.file.rows import Reader, identity_of
from fedmerit.ledger.file.schema import Guard
from fedmerit.ledger.file.writing import Writer
from fedmerit.ledger.paylist import PayList, pay_list_of, require_one_origin
from fedmerit.ledger.proof.heads import Anchor, Head, append_head, read_log, require_continued
from fedmerit.ledger.proof.signing import SigningKey
from fedmerit.ledger.proof.statement import read_statement
from fedmerit.ledger.proof.verification import CheckedEntry, Trust, Verification, verify
from fedmerit.ledger.summary import ClientSummary, Payout, read_payouts, read_summaries
from fedmerit.types import RoundRecord

Keys = bytes | Collection[bytes]


class Ledger(Tabular):
    """An append-only record of rounds, open for reading or for writing.

    Use :meth:`open`, and the ledger as a context manager. Safe to use from several threads, not
    across a fork.
    """

    def __init__(
        self,
        path: Path,
        place: Place,
        connection: sqlite3.Connection,
        lock: WriterLock | None,
        writer: Writer | None,
    ) -> None:
        self.path = path
        self._place = place
        self._connection = connection
        self._writer = writer
        self._guard = threading.RLock()
        self._process = os.getpid()
        self._schema = Guard(connection)
        # A ledger that was never closed must not lock out the next one once it is forgotten.
        self._shut = weakref.finalize(self, _shut, connection, lock)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        key: SigningKey | None = None,
        public_key: Keys | None = None,
        anchor: str | os.PathLike[str] | None = None,
        clock: Callable[[], float] = time.time,
        draw: Callable[[int], bytes] = os.urandom,
    ) -> Self:
        """Open the ledger at `path`; for writing it is created if there is none.

        Parameters
        ----------
        path : path
            The SQLite file. SQLite keeps a log (``-wal``, ``-shm``) beside it, and a writer leaves
            a note in ``.lock``.
        read_only : bool
            Open for reading only; possible while another process writes.
        key : SigningKey, optional
            Sign every entry of the runs started from here. Where this key signed before, the newest
            entry must be signed with it, too, or with one that is named.
        public_key : bytes or several, optional
            Other keys whose entries may be built upon.
        anchor : path, optional
            A log of heads, best on another machine's disk: a ledger that is behind it, as a backup
            is, or beside it, is not written to. See :meth:`anchor`.
        clock : callable
            Seconds since 1970. The recorded time may go backwards; nothing depends on its order.
        draw : callable
            Gives random bytes for the identity of a new ledger.

        Raises
        ------
        LedgerBusyError
            Another writer has it open.
        LedgerCorruptError
            It is open for writing, and its tables or guards were changed, or it does not go on from
            its anchors.
        LedgerError
            The file is missing, is no ledger, or was written by a newer version.
        """
        file = Path(path)
        if is_folder(file):
            raise LedgerError(f"a ledger must be a file, got the folder {file}")
        if read_only:
            place = Place(existing(file), writer=False)
            return cls(file, place, connect_reader(place), None, None)
        lock = WriterLock(file, busy=LedgerBusyError, failed=LedgerError)
        try:
            connection = connect_writer(lock.path, draw)
            try:
                place = Place(lock.path, writer=True)
                writer = Writer(connection, place, key, _keys(public_key) or (), clock)
                if anchor is not None:
                    _require_ahead(connection, Path(anchor))
            except BaseException:
                connection.close()
                raise
            return cls(file, place, connection, lock, writer)
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
    def id(self) -> str | None:
        """What tells this ledger from all others; None in a file of before version 4."""
        with self._reading("read the identity"):
            identity = identity_of(self._connection)
        return None if identity is None else identity.ledger.hex()

    @property
    def head(self) -> str | None:
        """Hash of the newest entry: keep it elsewhere, and nobody can shorten the ledger unseen."""
        with self._reading("read the head"):
            newest = head_of(self._connection)
        return None if newest is None else newest[1].hex()

    def signed_head(self) -> Head:
        """Return the newest entry as others can check, keep and sign it without the ledger."""
        with self._reading("read the head"):
            head = newest_head(self._connection)
        if head is None:
            raise LedgerError(
                f"the newest entry of {self.path} must be of version 4 to have a head that others "
                "can check: record a run or a round first"
            )
        return head

    def anchor(
        self,
        path: str | os.PathLike[str],
        *,
        key: SigningKey | None = None,
        public_key: Keys | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Anchor:
        """Verify the ledger and add its head to a log elsewhere.

        A head that was put under a bad ledger would stay in the log for ever, and the good one
        would never pass again.

        Parameters
        ----------
        path : path
            The log.
        key : SigningKey, optional
            That of a witness, which signs the line.
        public_key : bytes or several, optional
            Every run must be signed with this key, or one of these. Needed where the key of a
            ledger that was anchored before has changed.
        """
        keys = _keys(public_key)
        with self._reading("anchor the head"), snapshot(self._connection):
            checked = verify(self._connection, Trust(keys=keys))
            checked.require()
            head = self.signed_head()
            if head.hash != checked.head:
                raise LedgerCorruptError("the newest entry must be the one that was verified")
            chain = partial(hash_at, self._connection)
            return append_head(Path(path), head, key=key, public_key=keys, chain=chain, clock=clock)

    def start_run(self, config: Mapping[str, Any] | object, software_version: str) -> int:
        """Record a new run, to which `append` will add; return its number.

        `config` is a mapping or a dataclass of plain values; it is stored as JSON.
        """
        with self._writing("start a run") as writer:
            return writer.start_run(config, software_version)

    def resume_run(self, run: int) -> None:
        """Let `append` add to a run that was started earlier, with the same signing key."""
        with self._writing("resume a run") as writer:
            writer.resume_run(run)

    def append(self, record: RoundRecord) -> None:
        """Record a round. When this returns, it is on the disk.

        Appending a round again that is already recorded, as a run does that resumes from a
        checkpoint, changes nothing if the record is the same and is an error if it is not.
        """
        with self._writing("record a round") as writer:
            writer.append(record)

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
            reader = Reader(self._connection)
        for place in listed:
            with self._reading("read a round"):  # held for one round only: others may write between
                stored = read_round(reader, place)
            yield stored

    def tables(self, run: int | None = None) -> Iterator[tuple[int, RoundRows]]:
        """Yield number and rows of every round, for whoever reads many rounds by column."""
        with self._reading("list rounds"):
            listed = list_rounds(self._connection, Selection(run))
            reader = Reader(self._connection)
        for sequence, _, number, *_ in listed:
            with self._reading("read a round"):
                rows = reader.rows(sequence)
            yield number, rows

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

        For looking: it verifies nothing, and any rounds may be chosen. To pay, use
        :meth:`pay_list`.
        """
        with self._reading("list payouts"):
            listed = list_rounds(self._connection, Selection(run, since, after))
            return read_payouts(self._connection, [place[0] for place in listed])

    def pay_list(
        self,
        *,
        after: str | None = None,
        until: str | None = None,
        run: int | None = None,
        since: datetime | None = None,
        public_key: Keys | None = None,
        anchors: Sequence[Anchor] | None = None,
    ) -> PayList:
        """Verify the ledger and list what is owed for one stretch of it, as of the same moment.

        Parameters
        ----------
        after : str, optional
            Where the last list ended, its `head`. It must still be in the chain.
        until : str, optional
            Hash of the entry to stop at; with the same `after` it gives the same list for ever.
        run, since : optional
            Only rounds of a run, or recorded at or after a time. They must be one stretch.
        public_key : bytes or several, optional
            Every run must be signed with this key, or one of these.
        anchors : sequence of Anchor, optional
            A log of heads that the ledger must go on from, see :func:`fedmerit.ledger.read_log`.

        Raises
        ------
        LedgerCorruptError
            The ledger does not verify; nothing is listed.
        LedgerError
            Rounds would be lost or paid twice.
        """
        entries: list[CheckedEntry] = []
        with self._reading("list payouts"):
            trust = Trust(after, _keys(public_key), anchors)
            checked = verify(self._connection, trust, entries)
            checked.require()
            if public_key is None:
                require_one_origin(checked)
            return pay_list_of(entries, Selection(run, since, after), until)

    def statement(self, client: str) -> dict[str, Any]:
        """Return what `client` is shown of the ledger, with proofs: plain values for JSON.

        See :func:`fedmerit.ledger.check_statement` for the other side.
        """
        with self._reading("make a statement"), snapshot(self._connection):
            return read_statement(self._connection, client)

    def verify(
        self,
        *,
        head: str | None = None,
        public_key: Keys | None = None,
        anchors: Sequence[Anchor] | None = None,
    ) -> Verification:
        """Check all stored content against the chain.

        Parameters
        ----------
        head : str, optional
            A hash remembered from earlier; it must still be in the chain.
        public_key : bytes or several, optional
            Every run must be signed with this key, or one of these.
        anchors : sequence of Anchor, optional
            A log of heads, see :func:`fedmerit.ledger.read_log`: every head of this ledger in it
            must be in the chain, and there must be one.
        """
        with self._guard, translated("verify the ledger"):
            self._check_process()
            self._place.check()
            return verify(self._connection, Trust(head, _keys(public_key), anchors))

    def _table(self) -> Table:
        from fedmerit.ledger.export import flat_table

        return flat_table(self)

    def _repr_html_(self) -> str:
        """Show what the clients' rounds have come to; `to_pandas` has every round."""
        types = {"client": "string", "label": "string", "rounds": "int64"}
        types |= {"mean_score": "float64", "total_reward": "int64"}
        types |= {"flagged": "int64", "undecided": "int64", "rejected": "int64"}
        runs, rows = self.runs(), [dataclasses.asdict(found) for found in self.summaries()]
        rounds = sum(run.rounds for run in runs)
        return to_html(Table(f"{len(runs)} runs, {rounds} rounds", types, rows))

    @contextmanager
    def _reading(self, action: str) -> Iterator[None]:
        with self._guard, translated(action):
            self._check_process()
            self._schema.check()
            self._place.check()
            yield

    @contextmanager
    def _writing(self, action: str) -> Iterator[Writer]:
        if self._writer is None:
            raise LedgerError(f"a ledger must be open for writing to {action}, got read-only")
        with self._guard:
            self._check_process()
            yield self._writer

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise LedgerError(
                f"a ledger must be used in the process that opened it, {self._process}, "
                f"got {os.getpid()}"
            )


def _shut(connection: sqlite3.Connection, lock: WriterLock | None) -> None:
    connection.close()
    if lock is not None:
        lock.release()


def _keys(public_key: Keys | None) -> frozenset[bytes] | None:
    if public_key is None:
        return None
    keys = frozenset([public_key] if isinstance(public_key, bytes) else public_key)
    if not keys:
        raise LedgerError("public_key must be a key or several, got none")
    return keys


def _require_ahead(connection: sqlite3.Connection, log: Path) -> None:
    """Refuse a ledger that is behind an anchor, or beside it, or that has none."""
    identity = identity_of(connection)
    known = read_log(log) if log.exists() else []
    own = [a for a in known if identity is not None and a.head.ledger == identity.ledger.hex()]
    if not own and head_of(connection) is not None:
        raise LedgerCorruptError(
            f"a ledger with entries must be known to the log {log}, got none of its heads: it is "
            "another ledger, or must be anchored first"
        )
    require_continued(own, partial(hash_at, connection))
