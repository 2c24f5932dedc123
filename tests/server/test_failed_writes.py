"""A disk that fails for a while: no round is lost, none is counted twice, none is built upon."""

import errno
import os
from contextlib import suppress

import pytest

from fedmerit import Ledger, Server
from fedmerit.errors import CheckpointError, LedgerError, SettingError
from tests.server.federation import facts, new, updates

PAYING = {"reward": "positive:budget=1000", "vesting": 2}
LAST = 4


class Disk:
    """Lets the ledger or the state file be written, or not."""

    def __init__(self, monkeypatch):
        self.full, self.failed = set(), 0
        append, fsync = Ledger.append, os.fsync

        def appending(ledger, record):
            self._refuse("ledger")
            append(ledger, record)

        def syncing(handle):
            self._refuse("state")
            fsync(handle)

        monkeypatch.setattr(Ledger, "append", appending)
        monkeypatch.setattr(os, "fsync", syncing)

    def _refuse(self, what):
        if what in self.full:
            self.failed += 1
            raise OSError(errno.ENOSPC, "disk full")


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


ERRORS = pytest.mark.parametrize(
    ("what", "error"), [("ledger", OSError), ("state", CheckpointError)]
)
ROUNDS = pytest.mark.parametrize("number", [1, 2])


def start(folder, name="run", **more):
    return new(ledger=folder / f"{name}.ledger", state=folder / f"{name}.state", **PAYING, **more)


def recorded(path):
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.verify().ok
        return list(ledger.rounds())


def without_failure(folder):
    with start(folder, "whole") as server:
        results = [facts(server.settle(updates=updates(n))) for n in range(1, LAST + 1)]
        return results, server.contributions(), recorded(folder / "whole.ledger")


def fail(server, number, disk, what, error):
    """Settle rounds up to `number`, which cannot be written."""
    for earlier in range(1, number):
        server.settle(updates=updates(earlier))
    disk.full = {what}
    with pytest.raises(error, match="disk full"):
        server.settle(updates=updates(number))


@ERRORS
@ROUNDS
def test_a_run_goes_on_as_if_nothing_had_happened(tmp_path, disk, what, error, number):
    results, totals, rounds = without_failure(tmp_path)
    with start(tmp_path) as server:
        fail(server, number, disk, what, error)
        disk.full = set()
        for later in range(number + 1, LAST + 1):
            assert facts(server.settle(updates=updates(later))) == results[later - 1]
        assert server.contributions() == totals
    assert recorded(tmp_path / "run.ledger") == rounds
    with Server.load(tmp_path / "run.state") as loaded:
        assert loaded.contributions() == totals


@ERRORS
def test_nothing_is_judged_on_top_of_a_round_that_waits(tmp_path, disk, what, error):
    server = start(tmp_path)
    fail(server, 2, disk, what, error)
    before, totals = server.state, server.contributions()
    assert totals["ann"].rounds == 1, "who is owed what is what was written"
    calls = (
        lambda: server.settle(updates=updates(3)),
        lambda: server.judge(updates=updates(3)),
        lambda: server.save(tmp_path / "other.state"),
        server.write,
        server.close,
    )
    for call in calls:
        failed = disk.failed
        with pytest.raises(error, match="disk full"):
            call()
        assert disk.failed == failed + 1
        assert server.state is before
        assert server.contributions() == totals
    disk.full = set()
    server.close()
    assert server.contributions()["ann"].rounds == 2
    assert [record.round for record in recorded(tmp_path / "run.ledger")] == [1, 2]


@ERRORS
@ROUNDS
def test_a_process_that_ends_while_the_disk_is_full_can_be_continued(
    tmp_path, disk, what, error, number
):
    results, totals, rounds = without_failure(tmp_path)
    with suppress(OSError, CheckpointError), start(tmp_path) as server:
        server.save(tmp_path / "run.state")
        fail(server, number, disk, what, error)
    disk.full = set()
    path = tmp_path / "run.state"
    with Server.load(path, state=path) as loaded:
        assert loaded.round in (number - 1, number)
        for later in range(loaded.round + 1, LAST + 1):
            assert facts(loaded.settle(updates=updates(later))) == results[later - 1]
        assert loaded.contributions() == totals
    assert recorded(tmp_path / "run.ledger") == rounds


def test_metrics_that_come_late_do_not_change_a_round_that_waits(tmp_path, disk):
    with start(tmp_path) as server:
        fail(server, 1, disk, "ledger", OSError)
        server.note({"accuracy": 0.5})
        disk.full = set()
        assert server.write().metrics == {}
        assert server.write() is None
    assert recorded(tmp_path / "run.ledger")[0].metrics == {}


def test_a_callable_that_fails_gets_the_round_again_and_the_ledger_has_it_once(tmp_path):
    seen = []

    def record(told):
        seen.append(told.round)
        if len(seen) == 1:
            raise LedgerError("not now")

    with start(tmp_path, record=record) as server:
        with pytest.raises(LedgerError, match="not now"):
            server.settle(updates=updates(1))
        server.settle(updates=updates(2))
        assert server.contributions()["ann"].rounds == 2
    assert seen == [1, 1, 2]
    assert [found.round for found in recorded(tmp_path / "run.ledger")] == [1, 2]


def test_a_callable_may_look_at_the_server_and_save_it(tmp_path):
    seen = []

    def record(_told):
        server.save(tmp_path / "copy.state")
        seen.append(server.contributions()["ann"].rounds)

    with start(tmp_path, record=record) as server:
        for number in (1, 2):
            server.settle(updates=updates(number))
    assert seen == [1, 2]
    with Server.load(tmp_path / "copy.state") as loaded:
        assert loaded.contributions() == server.contributions()


# --- places where nothing can be written are told at once


@pytest.mark.parametrize(
    ("place", "match"),
    [
        (".", "state must be a file, got the folder "),
        ("none/run.state", "state must lie in a folder that is there, got .*none"),
    ],
)
def test_a_state_that_cannot_be_written_is_told_before_any_round(tmp_path, place, match):
    with pytest.raises(SettingError, match=match):
        new(state=tmp_path / place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("settings", [{}, {"ledger": "run.ledger"}])
def test_a_closed_server_settles_nothing(tmp_path, settings):
    server = new(**{name: tmp_path / place for name, place in settings.items()})
    server.settle(updates=updates(1))
    server.close()
    server.close()
    with pytest.raises(SettingError, match="a server must be open to settle a round, got one that"):
        server.settle(updates=updates(2))
    assert server.round == 1
