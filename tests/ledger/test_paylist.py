"""Pay lists: from what was verified, one stretch each, and no round twice or never."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from checks.faults.records import intruder
from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.ledger import Ledger, Payout, SigningKey, read_log, store
from fedmerit.ledger.file import values
from fedmerit.records.columns import INTEGER
from fedmerit.types import ClientRecord, RoundRecord
from tests.ledger.builders import make_ledger, make_record
from tests.ledger.test_verification import Forger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.ledger"


def paid(number: int, amount: int = 10, client: str = "ann") -> RoundRecord:
    return RoundRecord(number, (ClientRecord(client, 0.5, 1.0, reward=amount),))


def clock_of(*days: int) -> Callable[[], float]:
    """Entries are recorded on these days of a month, one after the other."""
    left = iter(days)
    return lambda: datetime(2024, 1, next(left), tzinfo=UTC).timestamp()


def open_reader(path: Path) -> Ledger:
    return Ledger.open(path, read_only=True)


def test_a_list_is_what_is_owed(path: Path) -> None:
    head = make_ledger(path, rounds=3)
    with open_reader(path) as ledger:
        found = ledger.pay_list()
        assert found.payouts == (Payout("client 1", 300, 3), Payout("client 2", 600, 3))
        assert (found.total, found.rounds, found.earlier) == (900, 3, 0)
        assert (found.head, found.after) == (head, None)
        assert ledger.pay_list() == found


def test_the_same_stretch_is_the_same_list_for_ever(path: Path) -> None:
    make_ledger(path, rounds=2)
    with Ledger.open(path) as ledger:
        first = ledger.pay_list()
        ledger.resume_run(1)
        ledger.append(make_record(3))
        ledger.start_run({}, "2")
        second = ledger.pay_list(after=first.head)
        assert (second.rounds, second.total) == (1, 300)
        assert ledger.pay_list(until=first.head) == first
        ledger.append(make_record(1))
        assert ledger.pay_list(after=first.head, until=second.head) == second
        third = ledger.pay_list(after=second.head)
        whole = ledger.pay_list()
    assert first.total + second.total + third.total == whole.total == 1200
    assert len({first.id, second.id, third.id, whole.id}) == 4
    references = [p.reference(x.client) for p in (first, second, third) for x in p.payouts]
    assert len(set(references)) == 6


def test_a_run_that_began_without_a_round_changes_no_id(path: Path) -> None:
    make_ledger(path, rounds=2)
    with Ledger.open(path) as ledger:
        before = ledger.pay_list()
        ledger.start_run({}, "2")
        after = ledger.pay_list()
    assert (after.id, after.payouts) == (before.id, before.payouts)
    assert after.head != before.head


def test_lists_end_to_end_pay_every_round_once_in_whatever_order_runs_are_written(path) -> None:
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        ledger.append(paid(1, 1))
        first = ledger.pay_list(run=1)
        ledger.start_run({}, "1")
        ledger.append(paid(1, 10))
        # The head of a list of run 1 is where run 1 ends: run 2 is not skipped.
        second = ledger.pay_list(after=ledger.pay_list(run=1).head)
        assert (first.total, second.total) == (1, 10)
        only = ledger.pay_list(run=2, after=first.head)
        assert (only.total, only.earlier, only.payouts) == (10, 1, second.payouts)
        assert only.id == second.id


def test_rounds_before_a_list_were_paid_by_a_list_that_is_named(path: Path) -> None:
    """Else the next one, which begins where this one ends, would never pay them."""
    with Ledger.open(path, clock=clock_of(1, 1, 2, 3)) as ledger:
        ledger.start_run({}, "1")
        ledger.append(paid(1))
        first = ledger.head
        ledger.start_run({}, "1")
        ledger.append(paid(1))
        for choice in ({"run": 2}, {"since": datetime(2024, 1, 2, tzinfo=UTC)}):
            with pytest.raises(LedgerError, match=f"say so with --after {first}"):
                ledger.pay_list(**choice)
            assert ledger.pay_list(**choice, after=first).rounds == 1
        with pytest.raises(LedgerError, match="64 hexadecimal digits"):
            ledger.pay_list(until="")


@pytest.mark.parametrize(
    "choose",
    [
        lambda _: {"run": 1},  # rounds of run 2 lie between
        lambda heads: {"run": 2, "after": heads[0]},  # a round of run 1 would be lost
        lambda heads: {"run": 1, "after": heads[1]},
        lambda _: {"since": datetime(2024, 1, 5, tzinfo=UTC)},  # the clock went back
    ],
)
def test_what_would_lose_a_round_is_refused(path: Path, choose) -> None:
    heads = []
    with Ledger.open(path, clock=clock_of(1, 2, 3, 4, 9, 5, 4)) as ledger:
        ledger.start_run({}, "1")
        ledger.start_run({}, "1")
        heads.append(ledger.head)
        for run, number in ((1, 1), (2, 1), (1, 2), (2, 2), (1, 3)):
            ledger.resume_run(run)
            ledger.append(paid(number))
            heads.append(ledger.head)
        with pytest.raises(LedgerError, match="a pay list must be one stretch of rounds"):
            ledger.pay_list(**choose(heads))
        assert ledger.pay_list(after=heads[0]).rounds == 5


def test_since_that_cuts_the_chain_once_is_a_stretch(path: Path) -> None:
    with Ledger.open(path, clock=clock_of(1, 1, 2, 3)) as ledger:
        ledger.start_run({}, "1")
        ledger.append(paid(1))
        first = ledger.head
        for number in (2, 3):
            ledger.append(paid(number))
        found = ledger.pay_list(since=datetime(2024, 1, 2, tzinfo=UTC), after=first)
        assert (found.rounds, found.earlier) == (2, 1)
        assert ledger.pay_list(since=datetime(2025, 1, 1, tzinfo=UTC)).total == 0


def test_a_reward_below_nothing_is_not_paid_around(path: Path, monkeypatch) -> None:
    """No writer of ours records one; what is owed to others would depend on whom one asks."""
    monkeypatch.setitem(values._CHECKS, INTEGER, values.integer)
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        ledger.append(paid(1, -100))
        ledger.append(paid(2, 30))
        assert ledger.verify().ok
        with pytest.raises(LedgerCorruptError, match="must not be negative, got -100 for 'ann'"):
            ledger.pay_list()


def test_a_list_without_rounds_moves_on_only_over_what_it_looked_at(path: Path) -> None:
    head = make_ledger(path, rounds=1)
    with Ledger.open(path) as ledger:
        empty = ledger.start_run({}, "1")
        nothing = ledger.pay_list(run=empty)
        assert (nothing.total, nothing.rounds, nothing.head) == (0, 0, None)
        assert ledger.pay_list(after=nothing.head).rounds == 1
        done = ledger.pay_list(after=head)
        assert (done.total, done.head) == (0, ledger.head)
        assert done.id == ledger.pay_list(after=head).id


def test_the_end_must_come_behind_the_beginning(path: Path) -> None:
    make_ledger(path, rounds=1)
    with Ledger.open(path) as ledger:
        early = ledger.head
        ledger.resume_run(1)
        ledger.append(make_record(2))
        with pytest.raises(LedgerError, match="until must be an entry behind that of after"):
            ledger.pay_list(after=ledger.head, until=early)
        with pytest.raises(LedgerError, match="hash must be that of an entry of this ledger"):
            ledger.pay_list(until="0" * 64)
        with pytest.raises(LedgerCorruptError, match="is not in the chain"):
            ledger.pay_list(after="0" * 64)


def test_a_bad_ledger_pays_nobody(path: Path) -> None:
    make_ledger(path)
    with Forger(path) as connection:
        connection.execute("UPDATE scores SET reward = reward + 1 WHERE reward > 0")
    with open_reader(path) as ledger, pytest.raises(LedgerCorruptError, match="round 1 of run 1"):
        ledger.pay_list()


class Meanwhile(list):
    """Heads of a log; whoever can write the file does so while they are compared."""

    def __init__(self, heads, act) -> None:
        super().__init__(heads)
        self.act = act

    def __iter__(self):
        self.act()
        return super().__iter__()


def test_what_is_changed_behind_the_verification_is_not_paid(path: Path, tmp_path: Path) -> None:
    """Raw bytes of the file are no matter of transactions: a page is read from it when needed."""
    key, owed, wanted = SigningKey.generate(), 0x12345678, 0x7FFFFFFF
    clients = tuple(
        ClientRecord(f"client {i:04}", 0.5, 1.0, reward=owed, label="x" * 200) for i in range(1000)
    )
    with Ledger.open(path, key=key) as ledger:
        ledger.start_run({}, "1")
        for number in range(1, 31):
            ledger.append(RoundRecord(number, clients))
        ledger.anchor(tmp_path / "heads.log")
    assert path.stat().st_size > 4_000_000  # more than SQLite keeps in memory
    before = path.read_bytes()

    def act() -> None:
        with path.open("r+b") as file:
            file.write(before.replace(owed.to_bytes(4, "big"), wanted.to_bytes(4, "big")))

    with open_reader(path) as ledger:
        anchors = Meanwhile(read_log(tmp_path / "heads.log"), act)
        try:
            found = ledger.pay_list(public_key=key.public_key, anchors=anchors)
        except LedgerCorruptError:
            return
        assert found.total == 30 * 1000 * owed


def test_an_unsigned_run_in_a_signed_ledger_is_never_paid(path: Path) -> None:
    key = SigningKey.generate()
    make_ledger(path, key=key)
    with intruder(path) as ledger:  # somebody without the key
        ledger.start_run({}, "1")
        ledger.append(paid(1, 10**9, "mallory"))
    with open_reader(path) as ledger:
        with pytest.raises(LedgerCorruptError, match="must all be signed with keys that you name"):
            ledger.pay_list()
        with pytest.raises(LedgerCorruptError, match="run 2: it is not signed with the given key"):
            ledger.pay_list(public_key=key.public_key)


def test_a_changed_key_is_paid_by_name_only(path: Path) -> None:
    old, new = SigningKey.generate(), SigningKey.generate()
    make_ledger(path, rounds=1, key=old)
    with Ledger.open(path, key=new) as ledger:
        ledger.start_run({}, "1")
        ledger.append(paid(1))
        both = [old.public_key, new.public_key]
        assert ledger.pay_list(public_key=both).rounds == 2
        for keys in (None, old.public_key, [new.public_key]):
            with pytest.raises(LedgerCorruptError):
                ledger.pay_list(public_key=keys)


def test_what_is_paid_beside_a_writer_is_what_was_verified(path: Path) -> None:
    """Each list must be that of the chain up to its own head, whatever is written meanwhile."""
    make_ledger(path, rounds=3)
    stop = threading.Event()

    def write() -> None:
        with Ledger.open(path) as writer:
            writer.resume_run(1)
            number = 3
            while not stop.is_set():
                number += 1
                writer.append(make_record(number))

    thread = threading.Thread(target=write)
    thread.start()
    lists = []
    try:
        with open_reader(path) as ledger:
            while len(lists) < 12:
                lists.append(ledger.pay_list())
    finally:
        stop.set()
        thread.join()
    with open_reader(path) as ledger:
        rounds = {stored.hash: stored.record.round for stored in ledger.history()}
        for found in lists:
            assert found.total == 300 * rounds[found.head] == 300 * found.rounds
            assert ledger.pay_list(until=found.head) == found


def test_a_round_written_after_the_check_is_not_in_the_list(path: Path, monkeypatch) -> None:
    head = make_ledger(path, rounds=3)
    with Ledger.open(path) as writer, open_reader(path) as ledger:
        writer.resume_run(1)
        check = store.verify

        def check_and_write(*arguments):
            checked = check(*arguments)
            writer.append(make_record(4))
            return checked

        monkeypatch.setattr(store, "verify", check_and_write)
        found = ledger.pay_list()
    assert (found.head, found.rounds, found.total) == (head, 3, 900)


@pytest.mark.parametrize("run", [2, 99])
def test_a_run_that_there_is_not_is_refused(path: Path, run: int) -> None:
    make_ledger(path)
    with (
        Ledger.open(path, read_only=True) as ledger,
        pytest.raises(LedgerError, match=f"run must be one of 1, got {run}"),
    ):
        ledger.pay_list(run=run)
