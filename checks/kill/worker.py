"""One of the two: writes a few rounds or pays what is owed, at random, until it is killed.

Paying is two steps. First the list is written down, whole; then its transfers are made, each under
a reference of its own. Whoever comes after a kill makes the transfers of the last list again: the
bank, which knows the references, sends none twice.
"""

import json
import os
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from fedmerit.disk.files import whole_file
from fedmerit.disk.lock import WriterLock
from fedmerit.errors import LedgerBusyError, LedgerError
from fedmerit.ledger import Ledger, PayList, SigningKey
from fedmerit.types import ClientRecord, RoundRecord

MOST_ROUNDS = 6  # written at once
LONGEST_PAUSE = 0.05  # seconds


def record(number: int) -> RoundRecord:
    """Return round `number`, known to whoever checks."""
    rng = random.Random(number)
    clients = rng.sample(range(20), k=rng.randrange(1, 12))
    return RoundRecord(
        number,
        tuple(
            ClientRecord(f"client {name}", rng.random(), rng.random(), reward=rng.randrange(1000))
            for name in clients
        ),
        metrics={"accuracy": rng.random()},
    )


class Place:
    """Where the two meet: a ledger, the lists that were made from it, and a bank."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "run.ledger"
        self.lists = folder / "lists"
        self.bank = folder / "bank.db"
        self.reported = folder / "reported.txt"
        self.key = folder / "key.pem"

    def create(self) -> None:
        """Make it, before anybody works."""
        self.lists.mkdir(parents=True)
        SigningKey.generate().save(self.key)
        with closing(sqlite3.connect(self.bank, isolation_level=None)) as bank:
            bank.execute("PRAGMA journal_mode = WAL")
            bank.execute("CREATE TABLE sent (reference TEXT PRIMARY KEY, client TEXT, amount INT)")
        with Ledger.open(self.ledger, key=SigningKey.load(self.key)) as ledger:
            ledger.start_run({"kind": "kill"}, "1")

    def made(self) -> list[Path]:
        """Return the lists that were written down, in order."""
        return sorted(path for path in self.lists.glob("[0-9]*.json"))


def work(place: Place, seed: int) -> None:
    """Write and pay until killed."""
    rng = random.Random(seed)
    key = SigningKey.load(place.key)
    while True:
        try:
            if rng.random() < 0.5:
                _write(place, key, rng)
            else:
                pay(place, key)
        except LedgerBusyError:
            pass  # the other one is at it
        time.sleep(rng.uniform(0, LONGEST_PAUSE))


def _write(place: Place, key: SigningKey, rng: random.Random) -> None:
    with Ledger.open(place.ledger, key=key) as ledger:
        ledger.resume_run(1)
        number = ledger.runs()[0].rounds
        for _ in range(rng.randrange(1, MOST_ROUNDS)):
            number += 1
            ledger.append(record(number))
            with place.reported.open("ab", buffering=0) as file:
                file.write(b"%d\n" % number)


def pay(place: Place, key: SigningKey) -> None:
    """Make the transfers of the last list again, then those of a new one."""
    with _one_payer(place):
        made = place.made()
        after = None
        if made:
            newest = json.loads(made[-1].read_bytes())
            _send(place, newest)
            after = newest["head"]
        with Ledger.open(place.ledger, read_only=True) as ledger:
            owed = ledger.pay_list(after=after, public_key=key.public_key)
        if not owed.rounds:
            return
        content = as_plain(owed)
        target = place.lists / f"{len(made) + 1:06d}.json"
        with whole_file(target) as partial:
            partial.write_text(json.dumps(content))
        _send(place, content)


def as_plain(owed: PayList) -> dict[str, object]:
    """Return what is written down of a list."""
    return {
        "id": owed.id,
        "after": owed.after,
        "head": owed.head,
        "payouts": [[p.client, p.amount, owed.reference(p.client)] for p in owed.payouts],
    }


def _send(place: Place, content: dict[str, object]) -> None:
    payouts: list[list[object]] = content["payouts"]  # type: ignore[assignment]
    with closing(sqlite3.connect(place.bank, isolation_level=None, timeout=30)) as bank:
        for client, amount, reference in payouts:
            bank.execute("INSERT OR IGNORE INTO sent VALUES (?, ?, ?)", (reference, client, amount))


@contextmanager
def _one_payer(place: Place) -> Iterator[None]:
    lock = WriterLock(place.lists, busy=LedgerBusyError, failed=LedgerError)
    try:
        yield
    finally:
        lock.release()


def spawn(place: Place, seed: int) -> int:
    """Start a worker as a fork, which is at once at work; return its process id."""
    child = os.fork()
    if child == 0:
        try:
            work(place, seed)
        except BaseException as error:
            with (place.lists.parent / "errors.txt").open("a") as file:
                file.write(f"{type(error).__name__}: {error}\n")
        finally:
            os._exit(1)  # only a failure comes here
    return child
