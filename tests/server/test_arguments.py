"""What a server is given is checked at once, and a round is never left half done."""

import numpy as np
import pytest

from fedmerit import Ledger, LedgerError, Server, SettingError
from tests.server.federation import model, new, updates


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"ledger": ""}, SettingError, "ledger must be a path, got ''"),
        ({"ledger": 5}, SettingError, "ledger must be a path, got 5"),
        ({"ledger": "."}, LedgerError, r"ledger must be a file, got the folder \."),
        ({"ledger": "none/a.ledger"}, LedgerError, "ledger must lie in a folder that is there"),
        ({"state": ""}, SettingError, "state must be a path, got ''"),
        ({"state": 5}, SettingError, "state must be a path, got 5"),
        ({"about": "x"}, SettingError, "about must be a mapping, got 'x'"),
    ],
)
def test_what_a_server_cannot_use_is_told_by_its_name(tmp_path, monkeypatch, given, error, match):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=match):
        new(**given)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.parametrize("path", ["", None, 5])
def test_paths_of_states_must_be_paths(path):
    with pytest.raises(SettingError, match=f"path must be a path, got {path!r}"):
        new().save(path)
    with pytest.raises(SettingError, match=f"path must be a path, got {path!r}"):
        Server.load(path)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_folder_is_no_ledger(tmp_path, read_only):
    with pytest.raises(LedgerError, match="a ledger must be a file, got the folder"):
        Ledger.open(tmp_path, read_only=read_only)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("found", [0.5, None, [("accuracy", 0.5)], {"accuracy": "good"}])
def test_an_evaluation_without_metrics_is_told_and_the_round_is_whole(tmp_path, found):
    ours, theirs = new(ledger=tmp_path / "ours"), new(ledger=tmp_path / "theirs")
    with pytest.raises(SettingError, match="metrics must be "):
        ours.settle(updates=updates(1), evaluate=lambda _: found)
    theirs.settle(updates=updates(1))
    assert not ours.under_way
    assert ours.contributions() == theirs.contributions()
    np.testing.assert_array_equal(ours.model, theirs.model)
    for server in (ours, theirs):
        server.settle(updates=updates(2), evaluate=lambda _: {"accuracy": 0.5})
        server.close()
    with Ledger.open(tmp_path / "ours") as one, Ledger.open(tmp_path / "theirs") as other:
        assert list(one.rounds()) == list(other.rounds())


def test_an_evaluation_that_fails_loses_its_metrics_and_no_round():
    server = Server(model(), seed=5)

    def fails(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        server.settle(updates=updates(1), evaluate=fails)
    assert server.contributions()["ann"].rounds == 1
