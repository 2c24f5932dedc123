"""Writing: one transaction per run or round, hashed, signed and on the disk when it returns."""

import dataclasses
import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.ledger.file.connection import Place, translated
from fedmerit.ledger.file.reading import head_of, newest_head
from fedmerit.ledger.file.records import RoundRows
from fedmerit.ledger.file.rows import Reader, every_row, identity_of
from fedmerit.ledger.file.schema import IDENTITY_SINCE, Guard, insertion
from fedmerit.ledger.file.values import MAX_INTEGER, integer, text
from fedmerit.ledger.proof.encoding import FIRST_PREVIOUS, entry_hash
from fedmerit.ledger.proof.entries import Link, Run, round_fields, run_fields, signed_bytes
from fedmerit.ledger.proof.signing import HEAD, SigningKey
from fedmerit.records.columns import CLIENT, REJECTION, VERSION
from fedmerit.types import RoundRecord

_INSERT_SCORE = insertion("scores", CLIENT)
_INSERT_REJECTION = insertion("rejections", REJECTION)
_REWARD = next(
    at for at, column in enumerate((c for c in CLIENT if c.used_in(VERSION)), 1)
    if column.name == "reward"
)  # fmt: skip


# Whoever reads it back, with whatever program, has room for so many levels.
_DEEPEST = 100


class Writer:
    """Adds entries to an open file; the caller holds the writer lock and keeps threads apart."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        place: Place,
        key: SigningKey | None,
        others: Collection[bytes],
        clock: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._place = place
        self._key = key
        self._others = others
        self._clock = clock
        with translated("read the identity"):
            identity = identity_of(connection)
        assert identity is not None, "a file that is open for writing is of the newest version"
        self._identity = identity
        self._schema = Guard(connection)
        self._run: int | None = None
        self._numbers: dict[str, int] = {}
        self._paid: int | None = None

    @property
    def _public_key(self) -> bytes | None:
        return None if self._key is None else self._key.public_key

    def start_run(self, config: Mapping[str, Any] | object, software_version: str) -> int:
        """Record a new run, to which `append` will add; return its number."""
        stored = _as_json(config)
        software = text("software_version", software_version)
        self._require_sound_end()
        with self._writing("start a run") as (link, runs):
            run = Run(runs + 1, software, stored, self._public_key)
            link = dataclasses.replace(link, runs=run.run)
            self._link("run", link, entry_hash(run_fields(link, self._identity, run)))
            self._connection.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)",
                (run.run, link.sequence, software, stored, run.public_key, IDENTITY_SINCE),
            )
        self._run = run.run
        return run.run

    def resume_run(self, run: int) -> None:
        """Let `append` add to a run that was started earlier, with the same signing key."""
        with translated("resume a run"):
            row = self._connection.execute(
                "SELECT public_key FROM runs WHERE run = ?", (run,)
            ).fetchone()
        if row is None:
            raise LedgerError(f"run must be one of this ledger, got {run}")
        if row[0] != self._public_key:
            raise LedgerError(f"run {run} must be continued with the key it was started with")
        self._require_sound_end()
        self._run = run

    def append(self, record: RoundRecord) -> None:
        """Record a round, unless it is there already, with the same content."""
        if self._run is None:
            raise LedgerError("start_run or resume_run must come before append, got neither")
        run, rows = self._run, RoundRows.of(record)
        number = integer("round", record.round)
        numbers: dict[str, int] = {}
        with self._writing(f"record round {number}") as (link, _):
            if self._is_recorded(run, number, rows):
                return
            paid = self._paid_with(rows)
            numbers = self._number_clients(rows.clients)
            link = dataclasses.replace(link, rounds=link.rounds + 1)
            fields = round_fields(link, self._identity, run, number, rows)
            self._link("round", link, entry_hash(fields))
            execute, many = self._connection.execute, self._connection.executemany
            sequence = link.sequence
            execute("INSERT INTO rounds VALUES (?, ?, ?, ?)", (sequence, run, number, VERSION))
            many("INSERT INTO metrics VALUES (?, ?, ?, ?)", [(sequence, *r) for r in rows.metrics])
            for insert, table in (
                (_INSERT_SCORE, rows.scores),
                (_INSERT_REJECTION, rows.rejections),
            ):
                many(insert, [(sequence, row[0], numbers[str(row[1])], *row[2:]) for row in table])
            many("INSERT INTO agreements VALUES (?, ?)", [(sequence, *r) for r in rows.agreement])
        self._numbers.update(numbers)  # only now: a round that failed leaves no numbers behind
        self._paid = paid

    @contextmanager
    def _writing(self, action: str) -> Iterator[tuple[Link, int]]:
        """Run a transaction; yield the place of the new entry, not counted yet, and the runs."""
        with translated(action):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._place.check()
                self._schema.check()
                newest = head_of(self._connection)
                sequence, previous = (0, FIRST_PREVIOUS) if newest is None else newest
                runs = self._connection.execute("SELECT max(run) FROM runs").fetchone()[0] or 0
                now = _microseconds(self._clock())
                yield Link(previous, sequence + 1, now, runs, sequence - runs), runs
                self._connection.execute("COMMIT")
                self._place.check()
            except BaseException:
                if self._connection.in_transaction:  # a full disk may have rolled back already
                    self._connection.execute("ROLLBACK")
                raise

    def _link(self, kind: str, link: Link, digest: bytes) -> None:
        signature = None
        if self._key is not None:
            message = signed_bytes(link, self._identity.ledger, digest)
            signature = self._key.sign(message, HEAD)
        self._connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
            (link.sequence, kind, link.recorded_at, digest, signature),
        )

    def _require_sound_end(self) -> None:
        """Refuse to write on top of an entry that somebody else may have put there.

        Its own signature must hold. In a ledger that has signed runs it must have one, and so must
        what comes next: a run without would make all of them unfit to be paid from. Where this key
        signed before, it must be this key's or one of those that were named.
        """
        with translated("read the newest entry"):
            head = newest_head(self._connection)
            known = {
                bytes(found)
                for (found,) in every_row(
                    self._connection,
                    "SELECT DISTINCT public_key FROM runs WHERE public_key IS NOT NULL",
                )
            }
        if self._key is None:
            if known:
                raise LedgerError(
                    "a ledger with signed runs must be continued with a key (--sign), got none: "
                    "nobody could pay from it any more"
                )
            return
        if head is None:
            return
        problem = head.problem()
        signer = None if head.public_key is None else bytes.fromhex(head.public_key)
        allowed = {self._key.public_key, *self._others}
        if problem is None and known and signer is None:
            problem = "it is not signed, and runs before it are"
        elif problem is None and self._key.public_key in known and signer not in allowed:
            problem = (
                f"it is signed with {head.public_key}, which must be named (public_key) if it is "
                "a key of yours"
            )
        if problem is not None:
            raise LedgerCorruptError(f"the newest entry must not be built upon: {problem}")

    def _paid_with(self, rows: RoundRows) -> int:
        """Return the sum of all rewards with those of `rows`, which must fit in 64 bits."""
        if self._paid is None:
            high, low = self._connection.execute(
                "SELECT coalesce(sum(reward >> 32), 0), coalesce(sum(reward & 4294967295), 0) "
                "FROM scores"
            ).fetchone()
            self._paid = (high << 32) + low
        paid = self._paid + sum(int(row[_REWARD] or 0) for row in rows.scores)
        if paid > MAX_INTEGER:
            raise LedgerError(
                f"rewards of a ledger must add up to at most {MAX_INTEGER}, got {paid} with this "
                "round"
            )
        return paid

    def _is_recorded(self, run: int, number: int, rows: RoundRows) -> bool:
        found = self._connection.execute(
            "SELECT sequence FROM rounds WHERE run = ? AND round = ?", (run, number)
        ).fetchone()
        if found is None:
            return False
        # As it would be recorded today: an older version may have written it.
        if RoundRows.of(Reader(self._connection).rows(found[0]).record(number)) != rows:
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
        stored = json.dumps(dict(plain), sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LedgerError(f"config must be plain values that JSON can hold: {error}") from error
    if _depth(plain) > _DEEPEST:
        raise LedgerError(f"config must be nested at most {_DEEPEST} deep, got deeper")
    return text("config", stored)


def _depth(value: object) -> int:
    """Return how many levels of lists and mappings there are."""
    depth, level = 0, [value]
    while level:
        inside = [item for item in level if isinstance(item, (Mapping, list, tuple))]
        depth += bool(inside)
        level = [
            part
            for item in inside
            for part in (item.values() if isinstance(item, Mapping) else item)
        ]
    return depth
