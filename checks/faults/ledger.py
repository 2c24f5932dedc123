"""Hostile records, odd clocks, and files that were tampered with, at the ledger."""

import math
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from checks.faults.base import Fault, refused, survived
from fedmerit.errors import FedMeritError
from fedmerit.ledger import Ledger
from fedmerit.types import ClientRecord, Rejection, RoundRecord

_YEAR = 365 * 24 * 3600.0


def record(number: int, *, clients: int = 3, name: str = "client-") -> RoundRecord:
    """Return a round in which client i is paid 10 (i + 1)."""
    return RoundRecord(
        round=number,
        clients=tuple(
            ClientRecord(f"{name}{i}", score=0.1 * i, weight=1 / clients, reward=10 * (i + 1))
            for i in range(clients)
        ),
        rejected=(Rejection("somebody", "the update is not finite"),),
        metrics={"accuracy": 0.5},
    )


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    yield from _records()
    yield from _clocks()
    yield from _tampering()


def _appended(*records: RoundRecord) -> str:
    with tempfile.TemporaryDirectory() as name, Ledger.open(Path(name) / "a.ledger") as ledger:
        ledger.start_run({}, "1")
        for one in records:
            ledger.append(one)
        checked = ledger.verify()
        assert checked.ok, checked.problem
        rounds = list(ledger.rounds())
        assert [r.clients[0].client for r in rounds] == [r.clients[0].client for r in records]
        return f"{len(rounds)} rounds, verifies"


def _records() -> Iterator[Fault]:
    def one(**fields: object) -> RoundRecord:
        client = ClientRecord(**{"client": "a", "score": 1.0, "weight": 1.0, **fields})  # type: ignore[arg-type]
        return RoundRecord(1, (client,))

    def bad(name: str, message: str, *records: RoundRecord) -> Fault:
        return refused("input", "ledger", name, message, partial(_appended, *records))

    def odd(name: str, *records: RoundRecord) -> Fault:
        expected = "kept as it is, and verifies"
        return survived("input", "ledger", name, expected, partial(_appended, *records))

    yield odd("score NaN", one(score=math.nan))
    for sign in (math.inf, -math.inf):
        yield bad(f"score {sign}", "score must be finite", one(score=sign))
        yield bad(f"weight {sign}", "weight must be finite", one(weight=sign))
        yield bad(f"p-value {sign}", "p_value must be finite", one(p_value=sign))
        yield bad(f"epsilon {sign}", "epsilon must be finite", one(epsilon=sign))
    yield odd("score -0.0", one(score=-0.0))
    yield odd("subnormal score", one(score=5e-324))
    yield odd("client with an empty name", one(client=""))
    yield odd("client named like SQL", one(client="'); DROP TABLE scores; --"))
    yield odd("client with a terminal escape", one(client="a\x1b[2J\x00b"))
    yield odd("client with a name of 1 MB", one(client="x" * 2**20))
    yield odd("reward of the largest integer", one(reward=2**63 - 1))
    yield bad("reward below zero", "reward must not be negative", one(reward=-1))
    yield bad("data size below zero", "must not be negative", one(num_examples=-5))
    yield bad(
        "rewards that add up beyond 64 bits", "must add up to at most",
        one(reward=2**63 - 1), RoundRecord(2, (ClientRecord("b", 0.5, 1.0, reward=1),)),
    )  # fmt: skip
    yield bad(
        "one client twice in a round", "a client must be in a round once",
        RoundRecord(1, (ClientRecord("b", 0.5, 0.5), ClientRecord("b", 0.4, 0.5))),
    )  # fmt: skip
    yield bad("reward beyond 64 bits", "must fit in 64 bits", one(reward=2**63))
    yield bad("reward that is a float", "reward must be an integer", one(reward=0.5))
    yield bad("client that is not text", "client must be text", one(client=7))
    yield bad("client with half a surrogate", "must be valid Unicode", one(client="\ud800"))
    yield bad("score that is text", "score must be a number", one(score="lots"))
    yield odd("the same round twice, the same", record(1), record(2))
    yield bad(
        "the same round twice, with other content", "is there already, with other content",
        record(1), record(1, clients=4),
    )  # fmt: skip

    def reused() -> str:
        return _appended(record(2), record(1))

    yield survived("time", "ledger", "round 1 after round 2", "kept in the order they came", reused)

    def without_run() -> None:
        with tempfile.TemporaryDirectory() as name, Ledger.open(Path(name) / "a") as ledger:
            ledger.append(record(1))

    yield refused(
        "input", "ledger", "a round without a run", "must come before append", without_run
    )

    def forked() -> str:
        with tempfile.TemporaryDirectory() as name, Ledger.open(Path(name) / "a") as ledger:
            ledger.start_run({}, "1")
            read_end, write_end = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    ledger.append(record(1))
                    os.write(write_end, b"accepted")
                except FedMeritError as error:
                    os.write(write_end, str(error).encode())
                finally:
                    os._exit(0)
            os.close(write_end)
            os.waitpid(child, 0)
            with os.fdopen(read_end) as pipe:
                said = pipe.read()
            assert said != "accepted", "a fork wrote into the ledger"
            ledger.append(record(1))
            assert ledger.verify().ok
            return said

    yield survived("process", "ledger", "used after a fork", "refused there, goes on here", forked)


def _clocks() -> Iterator[Fault]:
    def moved(*times: float) -> str:
        clock = iter(times)
        with (
            tempfile.TemporaryDirectory() as name,
            Ledger.open(Path(name) / "a.ledger", clock=lambda: next(clock)) as ledger,
        ):
            ledger.start_run({}, "1")
            heads = []
            for number in range(1, len(times)):
                ledger.append(record(number))
                heads.append(ledger.head)
            assert ledger.verify(head=heads[0]).ok
            assert [r.round for r in ledger.rounds()] == list(range(1, len(times)))
            rounds = sum(p.rounds for p in ledger.payouts(after=heads[0])) // 3
            assert rounds == len(times) - 2, f"{rounds} rounds to pay after the first"
            return "in order, verifies, nothing paid twice or forgotten"

    expected = "order and payouts by the chain, not by the clock"
    cases = {
        "clock goes back a year": (50 * _YEAR, 49 * _YEAR, 48 * _YEAR, 49.5 * _YEAR),
        "clock stands still": (_YEAR,) * 4,
        "clock before 1970": (-_YEAR, -2 * _YEAR, 0.0, 1.0),
        "clock in the year 9000": (_YEAR, 7000 * _YEAR, 1.0, 2.0),
    }
    for name, times in cases.items():
        yield survived("time", "ledger", name, expected, partial(moved, *times))
    for name, value, message in (
        ("clock says NaN", math.nan, "time must be"),
        ("clock says infinity", math.inf, "time must be"),
        ("clock says 1e30", 1e30, "must fit in 64 bits"),
    ):
        yield refused("time", "ledger", name, message, partial(moved, 0.0, value))


def _sql(statement: str) -> Callable[[Path], None]:
    def tamper(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for (trigger,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f"DROP TRIGGER {trigger}")
            connection.execute("PRAGMA writable_schema = ON")
            connection.executescript(statement)
            connection.commit()

    return tamper


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


def _tampering() -> Iterator[Fault]:
    def opened(tamper: Callable[[Path], None]) -> str:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "a.ledger"
            with Ledger.open(path) as ledger:
                ledger.start_run({}, "1")
                for number in range(1, 6):
                    ledger.append(record(number))
                head = ledger.head
            tamper(path)
            try:
                with Ledger.open(path, read_only=True) as ledger:
                    checked = ledger.verify(head=head)
            except FedMeritError as error:
                return f"{type(error).__name__}: {error}"
        assert not checked.ok, "nothing was noticed"
        return str(checked.problem)

    newest = "(SELECT max(sequence) FROM entries)"
    cases: dict[str, Callable[[Path], None]] = {
        "a reward changed": _sql("UPDATE scores SET reward = 99 WHERE sequence = 3"),
        "a score changed in its last digit": _sql(
            "UPDATE scores SET score = score + 1e-16 WHERE sequence = 3 AND position = 1"
        ),
        "a client renamed": _sql("UPDATE clients SET client = 'me' WHERE number = 1"),
        "two clients swapped": _sql(
            "UPDATE scores SET client = 3 - client WHERE client IN (1, 2) AND sequence = 3"
        ),
        "a rejection removed": _sql("DELETE FROM rejections WHERE sequence = 4"),
        "a time changed": _sql("UPDATE entries SET recorded_at = 5 WHERE sequence = 2"),
        "the newest round cut off": _sql(
            f"DELETE FROM scores WHERE sequence = {newest}; "
            f"DELETE FROM rejections WHERE sequence = {newest}; "
            f"DELETE FROM metrics WHERE sequence = {newest}; "
            f"DELETE FROM rounds WHERE sequence = {newest}; "
            f"DELETE FROM entries WHERE sequence = {newest}"
        ),
        "a round of the middle removed": _sql(
            "DELETE FROM scores WHERE sequence = 3; DELETE FROM entries WHERE sequence = 3"
        ),
        "a hash changed": _sql("UPDATE entries SET hash = zeroblob(32) WHERE sequence = 3"),
        "text for a number": _sql("UPDATE scores SET reward = 'lots' WHERE sequence = 3"),
        "bytes for a name": _sql("UPDATE clients SET client = x'ff00' WHERE number = 1"),
        "a config that is no JSON": _sql("UPDATE runs SET config = '{'"),
        "a table removed": _sql("DROP TABLE rejections"),
        "a newer version": _sql("PRAGMA user_version = 99"),
        "another program's database": _sql("PRAGMA application_id = 7"),
        "empty file": _bytes(lambda _: b""),
        "cut in half": _bytes(lambda content: content[: len(content) // 2]),
        "pages of zeros": _bytes(lambda content: content[:4096] + bytes(len(content) - 4096)),
        "not a database": _bytes(lambda _: b"what is this" * 1000),
        "no file at all": lambda path: path.unlink(),
    }
    for name, tamper in cases.items():
        yield survived("storage", "ledger", name, "noticed, and named", partial(opened, tamper))
