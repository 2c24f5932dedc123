"""Check stored content against the hash chain, entry by entry."""

import sqlite3
from contextlib import suppress
from dataclasses import dataclass

from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.ledger.encoding import FIRST_PREVIOUS, RUN_LABEL, entry_hash
from fedmerit.ledger.reading import parse_hash
from fedmerit.ledger.rows import rows_of, stray_value
from fedmerit.ledger.schema import altered
from fedmerit.ledger.signing import signature_holds


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
    """

    problem: str | None
    run: int | None
    round: int | None
    runs: int
    rounds: int
    head: str | None

    @property
    def ok(self) -> bool:
        """Whether all stored content is what was written."""
        return self.problem is None

    def require(self) -> None:
        """Raise if there is a problem."""
        if self.problem is not None:
            raise LedgerCorruptError(self.problem)


class _BadEntryError(Exception):
    pass


class _Checker:
    """Walks the chain and remembers how far it got."""

    def __init__(self, connection: sqlite3.Connection, trusted: bytes | None) -> None:
        self.connection = connection
        self.trusted = trusted
        self.previous = FIRST_PREVIOUS
        self.keys: dict[int, bytes | None] = {}
        self.hashes: set[bytes] = set()
        self.rounds = 0
        self.run: int | None = None
        self.round: int | None = None

    def walk(self) -> None:
        entries = self.connection.execute(
            "SELECT sequence, kind, recorded_at, hash, signature FROM entries ORDER BY sequence"
        )
        for expected, (sequence, kind, recorded_at, digest, signature) in enumerate(entries, 1):
            self.run = self.round = None
            if sequence != expected:
                raise _BadEntryError(f"entry {expected} is missing")
            check = self._run_hash if kind == "run" else self._round_hash
            found, key = check(sequence, recorded_at)
            if found != digest:
                raise _BadEntryError("the content is not what was recorded")
            self._check_signature(key, signature, digest)
            self.previous = digest
            self.hashes.add(digest)
            self.rounds += kind == "round"
        self.run = self.round = None

    def _run_hash(self, sequence: int, recorded_at: int) -> tuple[bytes, bytes | None]:
        row = self.connection.execute(
            "SELECT run, software, config, public_key FROM runs WHERE sequence = ?", (sequence,)
        ).fetchone()
        if row is None:
            raise _BadEntryError(f"the run of entry {sequence} is missing")
        self.run = row[0]
        self.keys[row[0]] = row[3]
        return entry_hash((RUN_LABEL, self.previous, sequence, recorded_at, *row)), row[3]

    def _round_hash(self, sequence: int, recorded_at: int) -> tuple[bytes, bytes | None]:
        row = self.connection.execute(
            "SELECT run, round FROM rounds WHERE sequence = ?", (sequence,)
        ).fetchone()
        if row is None:
            raise _BadEntryError(f"the round of entry {sequence} is missing")
        self.run, self.round = row
        if self.run not in self.keys:
            raise _BadEntryError("its run was not started before it")
        rows = rows_of(self.connection, sequence)
        stray = stray_value(self.connection, sequence, rows.version)
        if stray is not None:
            raise _BadEntryError(f"{stray} must be empty in a round of version {rows.version}")
        fields = (rows.label, self.previous, sequence, recorded_at, *row)
        return entry_hash(fields, rows.tables), self.keys[row[0]]

    def _check_signature(self, key: bytes | None, signature: bytes | None, digest: bytes) -> None:
        if self.trusted is not None and key != self.trusted:
            raise _BadEntryError("it is not signed with the given key")
        if key is None:
            if signature is not None:
                raise _BadEntryError("it has a signature, but its run has no key")
        elif signature is None or not signature_holds(key, signature, digest):
            raise _BadEntryError("the signature does not hold")

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
        stray = one(
            "SELECT number FROM clients WHERE number NOT IN "
            "(SELECT client FROM scores UNION SELECT client FROM rejections)"
        ).fetchone()
        if stray is not None:
            raise _BadEntryError(f"client number {stray[0]} occurs in no round")
        report = one("PRAGMA integrity_check(1)").fetchone()[0]
        if report != "ok":
            raise _BadEntryError(f"the file is damaged: {report}")


def verify(
    connection: sqlite3.Connection, head: str | None, public_key: bytes | None
) -> Verification:
    """Check everything, as of one moment; see `Ledger.verify`."""
    remembered = None if head is None else parse_hash(head)
    checker = _Checker(connection, public_key)
    problem = None
    try:
        connection.execute("BEGIN")
        checker.walk()
        if remembered is not None and remembered not in checker.hashes:
            raise _BadEntryError(
                f"the remembered head {head} is not in the chain: rounds were removed or replaced"
            )
        changed = altered(connection)
        if changed is not None:
            raise _BadEntryError(f"the schema was changed: {changed}")
        checker.check_rest()
    except _BadEntryError as error:
        problem = str(error)
    except (sqlite3.Error, LedgerError, OverflowError, UnicodeDecodeError) as error:
        problem = f"it cannot be read: {error}"
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # a damaged file may refuse even this
                connection.execute("ROLLBACK")
    where = ""
    if checker.run is not None:
        where = f"run {checker.run}: " if checker.round is None else (
            f"round {checker.round} of run {checker.run}: "
        )  # fmt: skip
    return Verification(
        problem=None if problem is None else where + problem,
        run=checker.run,
        round=checker.round,
        runs=len(checker.keys),
        rounds=checker.rounds,
        head=checker.previous.hex() if checker.hashes else None,
    )
