"""Reading runs and rounds back. Client ids and dates are parameters, never part of a statement."""

import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.ledger.file.records import require_types
from fedmerit.ledger.file.rows import Reader, every_row, identity_of
from fedmerit.ledger.file.schema import IDENTITY_SINCE
from fedmerit.ledger.file.values import integer
from fedmerit.ledger.proof.heads import Head
from fedmerit.types import RoundRecord

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# Sequence number, run, round, microseconds since 1970 and hash of a recorded round.
Place = tuple[int, int, int, int, bytes]


@dataclass(frozen=True)
class RunInfo:
    """A run of the ledger: `rounds` recorded so far, `public_key` if its entries are signed."""

    run: int
    started_at: datetime
    software: str
    config: Any
    public_key: bytes | None
    rounds: int


@dataclass(frozen=True)
class StoredRound:
    """A round and its place in the chain."""

    sequence: int
    run: int
    recorded_at: datetime
    hash: str
    record: RoundRecord


@dataclass(frozen=True)
class Selection:
    """Which rounds to look at: of one run, recorded at or after a time, behind an entry."""

    run: int | None = None
    since: datetime | None = None
    after: str | None = None

    def where(self, connection: sqlite3.Connection) -> tuple[str, dict[str, Any]]:
        """Return a condition on rounds r and entries e, and its parameters."""
        values = {
            "run": None if self.run is None else integer("run", self.run),
            "since": None if self.since is None else to_microseconds(self.since),
            "after": None if self.after is None else sequence_of(connection, self.after),
        }
        return (
            "(:run IS NULL OR r.run = :run) AND (:since IS NULL OR e.recorded_at >= :since) "
            "AND (:after IS NULL OR e.sequence > :after)",
            values,
        )


def to_microseconds(moment: datetime) -> int:
    """Return microseconds since 1970; a time without a zone is taken as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def from_microseconds(value: int) -> datetime:
    """Return the moment as a UTC datetime."""
    try:
        return _EPOCH + value * _MICROSECOND
    except OverflowError:
        raise LedgerError(f"recorded time must be within years 1 to 9999, got {value}") from None


def head_of(connection: sqlite3.Connection) -> tuple[int, bytes] | None:
    """Return sequence number and hash of the newest entry."""
    row: tuple[int, bytes] | None = connection.execute(
        "SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1"
    ).fetchone()
    require_types("hash", row[1:] if row else (), bytes)
    return row


def newest_head(connection: sqlite3.Connection) -> Head | None:
    """Return the newest entry as a head; None if there is none, or it is of before version 4."""
    identity = identity_of(connection)
    if identity is None:
        return None
    row = connection.execute(
        """SELECT e.sequence, e.hash, e.signature, (SELECT max(run) FROM runs), r.public_key,
                  coalesce(o.version, r.version)
           FROM entries e LEFT JOIN rounds o USING (sequence)
           JOIN runs r ON r.run = o.run OR r.sequence = e.sequence
           ORDER BY e.sequence DESC LIMIT 1"""
    ).fetchone()
    if row is None or row[5] is None or row[5] < IDENTITY_SINCE:
        return None
    sequence, digest, signature, runs, key, _ = row
    return Head(
        ledger=identity.ledger.hex(),
        sequence=sequence,
        runs=runs,
        rounds=sequence - runs,
        hash=digest.hex(),
        public_key=None if key is None else key.hex(),
        signature=None if signature is None else signature.hex(),
    )


def hash_at(connection: sqlite3.Connection, sequence: int) -> str | None:
    """Return the hash of the entry at a place of the chain; None if there is no such entry."""
    row = connection.execute("SELECT hash FROM entries WHERE sequence = ?", (sequence,)).fetchone()
    require_types("hash", row or (), bytes)
    return None if row is None else str(row[0].hex())


def sequence_of(connection: sqlite3.Connection, digest: str) -> int:
    """Return the place in the chain of the entry with hash `digest`, in hexadecimal."""
    row = connection.execute(
        "SELECT sequence FROM entries WHERE hash = ?", (parse_hash(digest),)
    ).fetchone()
    if row is None:
        raise LedgerError(f"hash must be that of an entry of this ledger, got {digest}")
    return int(row[0])


def parse_hash(digest: str) -> bytes:
    """Turn 64 hexadecimal digits into bytes."""
    try:
        raw = bytes.fromhex(digest)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise LedgerError(f"hash must be 64 hexadecimal digits, got {digest!r}")
    return raw


def read_runs(connection: sqlite3.Connection) -> list[RunInfo]:
    """Read all runs, oldest first."""
    query = """
        SELECT r.run, e.recorded_at, r.software, r.config, r.public_key,
               (SELECT count(*) FROM rounds WHERE rounds.run = r.run)
        FROM runs r JOIN entries e USING (sequence) ORDER BY r.run"""
    found = []
    for run, started, software, config, key, rounds in every_row(connection, query):
        require_types("software", (software,), str)
        require_types("public_key", (key,), bytes)
        require_types("config", (config,), str)
        settings = json.loads(config)
        if not isinstance(settings, dict):
            raise LedgerCorruptError(f"config must be a mapping, got {type(settings).__name__}")
        found.append(RunInfo(run, from_microseconds(started), software, settings, key, rounds))
    return found


def list_rounds(connection: sqlite3.Connection, selection: Selection) -> list[Place]:
    """List rounds in the order they were recorded."""
    condition, values = selection.where(connection)
    return every_row(
        connection,
        "SELECT e.sequence, r.run, r.round, e.recorded_at, e.hash "
        f"FROM rounds r JOIN entries e USING (sequence) WHERE {condition} ORDER BY e.sequence",
        values,
    )


def read_round(reader: Reader, place: Place) -> StoredRound:
    """Read one round."""
    sequence, run, number, recorded_at, digest = place
    require_types("hash", (digest,), bytes)
    require_types("run", (run,), int)
    record = reader.rows(sequence).record(number)
    return StoredRound(sequence, run, from_microseconds(recorded_at), digest.hex(), record)
