"""Check stored content against the hash chain, entry by entry."""

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.ledger.file.connection import snapshot, translated
from fedmerit.ledger.file.reading import parse_hash
from fedmerit.ledger.file.records import require_types
from fedmerit.ledger.file.rows import Reader, identity_of
from fedmerit.ledger.file.schema import IDENTITY_SINCE, require_intact
from fedmerit.ledger.proof.encoding import FIRST_PREVIOUS, entry_hash
from fedmerit.ledger.proof.entries import (
    Identity,
    Link,
    Run,
    old_round_hash,
    old_run_hash,
    round_fields,
    run_fields,
    signed_bytes,
)
from fedmerit.ledger.proof.heads import Anchor
from fedmerit.ledger.proof.signing import ENTRY, HEAD, signature_holds


@dataclass(frozen=True)
class Verification:
    """Result of a check.

    Attributes
    ----------
    problem : str or None
        What is wrong, in words; None if nothing is.
    run, round : int or None
        The first bad entry: a round of a run, or the run's own entry if `round` is None. Both are
        None where the problem is not that of one entry.
    runs, rounds : int
        Good entries before the problem, or in all.
    head : str or None
        Hash of the last good entry.
    ledger : str or None
        The ledger's id; None in a file of before version 4.
    keys : tuple of str
        Public keys that runs are signed with, "" for a run that is not.
    proven, open : tuple of str
        What this check shows, and what it leaves open, in words.
    """

    problem: str | None
    run: int | None
    round: int | None
    runs: int
    rounds: int
    head: str | None
    ledger: str | None = None
    keys: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all stored content is what was written."""
        return self.problem is None

    def require(self) -> None:
        """Raise if there is a problem."""
        if self.problem is not None:
            raise LedgerCorruptError(self.problem)


@dataclass(frozen=True)
class Trust:
    """What a verifier knows from elsewhere.

    Attributes
    ----------
    head : str or None
        A hash remembered from earlier.
    keys : set of bytes or None
        Public keys that every run must be signed with one of.
    anchors : sequence of Anchor or None
        A log of heads.
    """

    head: str | None = None
    keys: Collection[bytes] | None = None
    anchors: Sequence[Anchor] | None = None


@dataclass(frozen=True)
class CheckedEntry:
    """An entry as it was read to be hashed: who pays from it pays what was verified.

    Attributes
    ----------
    is_round : bool
        Whether it is a round, or the start of a run.
    clients, rewards : sequence
        Of each row of a round.
    """

    sequence: int
    run: int
    recorded_at: int
    hash: bytes
    is_round: bool
    clients: Sequence[str] = ()
    rewards: Sequence[int | None] = ()


class _BadEntryError(Exception):
    pass


@dataclass
class _Checker:
    """Walks the chain and remembers how far it got."""

    connection: sqlite3.Connection
    trust: Trust
    identity: Identity | None = None
    previous: bytes = FIRST_PREVIOUS
    keys: dict[int, bytes | None] = field(default_factory=dict)
    hashes: list[bytes] = field(default_factory=list)
    rounds: int = 0
    run: int | None = None
    round: int | None = None
    kept: list[CheckedEntry] | None = None

    def check_pages(self) -> None:
        """Look at how the file is put together: trees in it must have an end."""
        report = self.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if report != "ok":
            raise _BadEntryError(f"the file is damaged: {report}")

    def walk(self) -> None:
        self.identity = identity_of(self.connection)
        self.reader = Reader(self.connection)
        entries = self.connection.execute(
            "SELECT sequence, kind, recorded_at, hash, signature FROM entries ORDER BY sequence"
        )
        for expected, (sequence, kind, recorded_at, digest, signature) in enumerate(entries, 1):
            self.run = self.round = None
            if sequence != expected:
                raise _BadEntryError(f"entry {expected} is missing")
            is_run = kind == "run"
            link = Link(
                self.previous,
                sequence,
                recorded_at,
                len(self.keys) + is_run,
                self.rounds + (not is_run),
            )
            found, key, counted = self._run_hash(link) if is_run else self._round_hash(link)
            if found != digest:
                raise _BadEntryError("the content is not what was recorded")
            self._check_signature(key, signature, link, digest, counted=counted)
            if self.kept is not None:
                self.kept.append(self._checked(link, digest, is_round=not is_run))
            self.previous = digest
            self.hashes.append(digest)
            self.rounds += not is_run
        self.run = self.round = None

    def _run_hash(self, link: Link) -> tuple[bytes, bytes | None, bool]:
        version = "version" if self.reader.schema >= IDENTITY_SINCE else "NULL"
        row = self.connection.execute(
            f"SELECT run, software, config, public_key, {version} FROM runs WHERE sequence = ?",
            (link.sequence,),
        ).fetchone()
        if row is None:
            raise _BadEntryError(f"the run of entry {link.sequence} is missing")
        run = Run(*row[:4])
        self.run = run.run
        require_types("public_key", (run.public_key,), bytes)
        self.keys[run.run] = run.public_key
        if row[4] is None:
            return old_run_hash(link, run), run.public_key, False
        if row[4] != IDENTITY_SINCE or self.identity is None:
            raise _BadEntryError(f"its version must be {IDENTITY_SINCE} or nothing, got {row[4]!r}")
        return entry_hash(run_fields(link, self.identity, run)), run.public_key, True

    def _round_hash(self, link: Link) -> tuple[bytes, bytes | None, bool]:
        row = self.connection.execute(
            "SELECT run, round FROM rounds WHERE sequence = ?", (link.sequence,)
        ).fetchone()
        if row is None:
            raise _BadEntryError(f"the round of entry {link.sequence} is missing")
        run, number = row
        require_types("run", (run,), int)
        require_types("round", (number,), int)
        self.run, self.round = run, number
        if run not in self.keys:
            raise _BadEntryError("its run was not started before it")
        rows = self.reader.rows(link.sequence)
        stray = self.reader.stray_value(link.sequence, rows.version)
        if stray is not None:
            raise _BadEntryError(f"{stray} must be empty in a round of version {rows.version}")
        self.rows = rows
        if rows.version < IDENTITY_SINCE:
            return old_round_hash(link, run, number, rows), self.keys[run], False
        if self.identity is None:
            raise _BadEntryError("the ledger has no identity")
        fields = round_fields(link, self.identity, run, number, rows)
        return entry_hash(fields), self.keys[run], True

    def _checked(self, link: Link, digest: bytes, *, is_round: bool) -> CheckedEntry:
        assert self.run is not None, "every entry is of a run"
        columns = self.rows.client_columns() if is_round else {}
        return CheckedEntry(
            link.sequence,
            self.run,
            link.recorded_at,
            digest,
            is_round,
            columns.get("client", ()),
            columns.get("reward", ()),
        )

    def _check_signature(
        self,
        key: bytes | None,
        signature: bytes | None,
        link: Link,
        digest: bytes,
        *,
        counted: bool,
    ) -> None:
        if self.trust.keys is not None and key not in self.trust.keys:
            raise _BadEntryError("it is not signed with the given key")
        if key is None:
            if signature is not None:
                raise _BadEntryError("it has a signature, but its run has no key")
            return
        message, context = digest, ENTRY
        if counted and self.identity is not None:
            message, context = signed_bytes(link, self.identity.ledger, digest), HEAD
        if signature is None or not signature_holds(key, signature, message, context):
            raise _BadEntryError("the signature does not hold")

    def check_trust(self) -> None:
        """Compare the chain with what is known from elsewhere."""
        head, anchors = self.trust.head, self.trust.anchors
        if head is not None and parse_hash(head) not in self.hashes:
            raise _BadEntryError(
                f"the remembered head {head} is not in the chain: rounds were removed or replaced"
            )
        if self.trust.keys is not None and not self.hashes:
            raise _BadEntryError("it is empty: nothing is signed with the given key")
        if anchors is not None:
            self._check_anchors(anchors)

    def _check_anchors(self, anchors: Sequence[Anchor]) -> None:
        own = [anchor for anchor in anchors if anchor.head.ledger == self._ledger]
        if not own:
            raise _BadEntryError(
                f"the log of heads knows nothing of ledger {self._ledger}: it is another ledger, "
                "or was never anchored"
            )
        for anchor in own:
            head = anchor.head
            if head.sequence > len(self.hashes):
                raise _BadEntryError(
                    f"it must have the {head.sequence} entries that were anchored on {anchor.at}, "
                    f"got {len(self.hashes)}: the newest were removed"
                )
            if self.hashes[head.sequence - 1].hex() != head.hash:
                raise _BadEntryError(
                    f"entry {head.sequence} is not the one that was anchored on {anchor.at}: "
                    "this chain and the anchored one were continued from one copy, or replaced"
                )

    @property
    def _ledger(self) -> str | None:
        return None if self.identity is None else self.identity.ledger.hex()

    def check_rest(self) -> None:
        """Look for rows outside the chain, and at the indexes, which the chain does not cover."""
        one = self.connection.execute
        counts = {"entries": len(self.hashes), "runs": len(self.keys), "rounds": self.rounds}
        for table, expected in counts.items():
            found = one(f"SELECT count(*) FROM {table}").fetchone()[0]
            if found != expected:
                raise _BadEntryError(f"{table} must hold {expected} rows, got {found}")
        dangling = one("PRAGMA foreign_key_check").fetchone()
        if dangling is not None:
            raise _BadEntryError(f"{dangling[0]} holds a row that belongs to nothing")
        used = "EXCEPT SELECT client FROM scores EXCEPT SELECT client FROM rejections"
        stray = one(f"SELECT number FROM clients {used}").fetchone()
        if stray is not None:
            raise _BadEntryError(f"client number {stray[0]} occurs in no round")
        report = one("PRAGMA integrity_check(1)").fetchone()[0]
        if report != "ok":
            raise _BadEntryError(f"the file is damaged: {report}")

    def result(self, problem: str | None) -> Verification:
        where = ""
        if self.run is not None:
            where = f"run {self.run}: " if self.round is None else (
                f"round {self.round} of run {self.run}: "
            )  # fmt: skip
        proven, left_open = ((), ()) if problem is not None else self._levels()
        return Verification(
            problem=None if problem is None else where + problem,
            run=self.run,
            round=self.round,
            runs=len(self.keys),
            rounds=self.rounds,
            head=self.hashes[-1].hex() if self.hashes else None,
            ledger=self._ledger,
            keys=tuple(sorted({key.hex() if key else "" for key in self.keys.values()})),
            proven=proven,
            open=left_open,
        )

    def _levels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Say what was shown, and what a forger could still have done."""
        proven = ["content: every row is what was hashed when it was recorded"]
        left_open = []
        if self.trust.keys is None:
            left_open.append(
                "origin: whoever can write the file could have written all of it (--public-key)"
            )
        else:
            proven.append("origin: every entry was signed with the given key")
        known = [0]
        if self.trust.head is not None:
            known.append(self.hashes.index(parse_hash(self.trust.head)) + 1)
        if self.trust.anchors is not None:
            own = (a.head for a in self.trust.anchors if a.head.ledger == self._ledger)
            known.append(max(head.sequence for head in own))
        if max(known):
            proven.append(
                f"completeness: the first {max(known)} of {len(self.hashes)} entries are those "
                "that were remembered elsewhere"
            )
        if max(known) < len(self.hashes) or not self.hashes:
            left_open.append(
                "completeness: newer entries may have been removed, and two chains continued from "
                "one copy look alike (--anchor, --head)"
            )
        return tuple(proven), tuple(left_open)


def verify(
    connection: sqlite3.Connection, trust: Trust, kept: list[CheckedEntry] | None = None
) -> Verification:
    """Check everything, as of one moment; see `Ledger.verify`.

    What each entry pays is put into `kept`, as it was hashed.
    """
    if trust.head is not None:
        parse_hash(trust.head)
    checker = _Checker(connection, trust, kept=kept)
    problem = None
    try:
        with translated("read it"), snapshot(connection):
            require_intact(connection)
            checker.check_pages()
            checker.walk()
            checker.check_trust()
            checker.check_rest()
    except (_BadEntryError, LedgerError) as error:
        problem = str(error)
    return checker.result(problem)
