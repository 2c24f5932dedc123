"""A Flower server that is killed and started again: as if nothing had happened."""

import json
import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi

from fedmerit import Ledger
from fedmerit.errors import CheckpointError
from fedmerit.flower import FedMerit
from fedmerit.flower.local import LocalGrid
from fedmerit.report import open_source, write_report
from fedmerit.server.opening import state_path
from tests.flower.federation import (
    CLIENTS,
    FIRST,
    REPLAYER,
    Federation,
    assert_same,
    initial,
    plain,
    record,
    start,
)
from tests.flower.restart_child import ROUNDS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")

VARIANTS = {
    "fedavg": {},
    "counters": {"counters": True},
    "gated": {"weighting": "gated", "norm_bound": 3.0},
}
# Where each run is killed, one kill after the other, in which round, and how many rounds are on
# record then.
KILLS = {
    "fedavg": [
        ("evaluate", 1, 0),
        ("aggregate", 2, 1),
        ("configure", 3, 2),
        ("between", 3, 2),
        ("evaluate", 4, 3),
    ],
    "counters": [("configure", 3, 2)],
    "gated": [("between", 2, 1)],
}


def content(path):
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.verify().ok
        runs = [
            (run.rounds, {k: v for k, v in run.config.items() if k != "fingerprint"})
            for run in ledger.runs()
        ]
        return runs, [repr(replace(known, seconds={})) for known in ledger.rounds()]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The runs: for each variant one that was not killed, and those that were, started again."""
    root = tmp_path_factory.mktemp("restart")
    jobs, ends = [], []

    def job(end, folder, **options):
        folder.mkdir(exist_ok=True)
        jobs.append({"folder": str(folder), **options})
        ends.append(end)

    for variant, options in VARIANTS.items():
        job(0, root / variant, **options)
    for variant, kills in KILLS.items():
        for place, number, recorded in kills:
            options = {"kill": place, "at": number, "recorded": recorded, **VARIANTS[variant]}
            job(-signal.SIGKILL, root / f"{variant} killed", **options)
        job(0, root / f"{variant} killed", **VARIANTS[variant])
    child = subprocess.run(
        [sys.executable, "-m", "tests.flower.restart_child", json.dumps(jobs)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert child.returncode == 0, child.stderr
    found = json.loads(child.stdout.splitlines()[-1])
    assert found == ends, child.stderr
    return root


@pytest.mark.slow
@pytest.mark.parametrize("variant", KILLS)
def test_a_killed_server_goes_on_as_if_nothing_had_happened(variant, folders):
    whole, killed = folders / variant, folders / f"{variant} killed"
    runs, rounds = content(killed / "run.ledger")
    assert (runs, rounds) == content(whole / "run.ledger")
    assert [run[0] for run in runs] == [ROUNDS]
    for told in ("verdicts", "totals"):
        assert (killed / told).read_text() == (whole / told).read_text()
    with np.load(whole / "final.npz") as ours, np.load(killed / "final.npz") as theirs:
        assert list(ours) == list(theirs)
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])
            assert ours[name].dtype == theirs[name].dtype


@pytest.mark.slow
@pytest.mark.parametrize("variant", KILLS)
def test_a_replayer_is_paid_nothing_after_a_restart(variant, folders):
    with Ledger.open(folders / f"{variant} killed" / "run.ledger", read_only=True) as ledger:
        rounds = list(ledger.rounds())
    assert [known.round for known in rounds] == list(range(1, ROUNDS + 1))
    for known in rounds[1:]:
        (replayer,) = [c for c in known.clients if c.client == str(REPLAYER)]
        assert (replayer.reward, replayer.weight, replayer.flagged) == (0, 0.0, True)
        assert sum(client.reward or 0 for client in known.clients) == 1000


@pytest.mark.slow
def test_the_page_shows_one_run(folders, tmp_path):
    write_report(open_source(folders / "fedavg killed" / "run.ledger"), tmp_path / "page.html")
    assert "run 2" not in (tmp_path / "page.html").read_text().lower()


# --- inside one process


def strategy(path, **settings):
    return FedMerit(FedAvg(fraction_evaluate=0.0), **{"seed": 3, "ledger": path, **settings})


def test_resume_false_starts_a_second_run(tmp_path):
    path = tmp_path / "run.ledger"
    first = start(strategy(path), Federation(), rounds=2)
    second = start(strategy(path, resume=False), Federation(), rounds=2)
    assert_same(first.arrays, second.arrays)
    runs, rounds = content(path)
    assert [run[0] for run in runs] == [2, 2]
    assert rounds[:2] == rounds[2:]
    # and the state is now that of the second
    start(strategy(path), Federation(first_round=3), rounds=1)
    assert [run[0] for run in content(path)[0]] == [2, 3]


def test_a_run_goes_on_from_its_own_model_whatever_is_given(tmp_path):
    path = tmp_path / "run.ledger"
    first = start(strategy(path), Federation(), rounds=2)
    federation = Federation(first_round=3)
    other = record({name: 0 * value for name, value in plain(initial()).items()})
    start(strategy(path), federation, rounds=1, arrays=other)
    assert_same(record(federation.models[3]), first.arrays)


def test_a_strategy_that_is_started_again_continues(tmp_path):
    path = tmp_path / "run.ledger"
    ours = strategy(path)
    first = start(ours, Federation(), rounds=2)
    federation = Federation(first_round=3)
    start(ours, federation, rounds=1)
    assert_same(record(federation.models[3]), first.arrays)
    assert [run[0] for run in content(path)[0]] == [3]


@pytest.mark.parametrize("moved", [0, 100])
def test_strangers_in_a_continued_run_are_told(moved, tmp_path, caplog):
    """A simulation gives its clients new ids when it is started again."""
    path = tmp_path / "run.ledger"
    start(strategy(path), Federation(), rounds=2)
    federation = Federation(first_round=3)
    nodes = {FIRST + row: partial(federation.reply, FIRST + row) for row in range(CLIENTS)}
    federation.grid = LocalGrid({node + moved: reply for node, reply in nodes.items()})
    with caplog.at_level(logging.WARNING, "flwr"):
        start(strategy(path), federation, rounds=2)
    told = [line for line in caplog.messages if line.startswith("none of these clients was in")]
    assert len(told) == (1 if moved else 0)


def test_a_continued_run_without_any_round_has_its_model(tmp_path):
    path = tmp_path / "run.ledger"
    first = start(strategy(path), Federation(), rounds=2)
    again = start(strategy(path), Federation(first_round=3), rounds=0)
    assert_same(again.arrays, first.arrays)


@pytest.mark.parametrize(
    "other",
    [
        {"a.weight": np.zeros((60, 51), "f4")},
        {"c.weight": np.zeros(3, "f4")},
    ],
    ids=["shape", "one more"],
)
def test_a_model_of_another_shape_is_refused_and_nothing_is_lost(other, tmp_path):
    path = tmp_path / "run.ledger"
    start(strategy(path), Federation(), rounds=2)
    before = content(path), state_path(path).read_bytes()
    with pytest.raises(CheckpointError, match="start with that model, or with another ledger, or"):
        start(strategy(path), Federation(), arrays=initial(**other))
    assert (content(path), state_path(path).read_bytes()) == before
    start(strategy(path), Federation(first_round=3), rounds=1)
    assert [run[0] for run in content(path)[0]] == [3]


def test_a_damaged_state_is_refused_and_nothing_is_lost(tmp_path):
    path = tmp_path / "run.ledger"
    start(strategy(path), Federation(), rounds=2)
    whole, before = state_path(path).read_bytes(), content(path)
    state_path(path).write_bytes(whole[:-5])
    with pytest.raises(CheckpointError, match="damaged"):
        start(strategy(path), Federation())
    assert content(path) == before
    state_path(path).write_bytes(whole)
    start(strategy(path), Federation(first_round=3), rounds=1)
    assert [run[0] for run in content(path)[0]] == [3]


def test_a_model_that_grows_within_a_run_is_an_error():
    class Growing(FedAvg):
        def aggregate_train(self, server_round, replies):
            arrays, metrics = super().aggregate_train(server_round, replies)
            return ArrayRecord({**arrays, "more": arrays["a.bias"]}), metrics

    with pytest.raises(ValueError, match="must have the arrays of the one before"):
        start(FedMerit(Growing(fraction_evaluate=0.0), seed=3), Federation())


INSIDE = {
    "FedAdagrad": partial(FedAdagrad, eta=0.05),
    "FedAdam": partial(FedAdam, eta=0.05),
    "FedAvgM": partial(FedAvgM, server_momentum=0.9),
    "FedYogi": partial(FedYogi, eta=0.05),
}


@pytest.mark.parametrize("name", INSIDE)
def test_what_the_strategy_inside_has_gathered_goes_on(name, tmp_path, monkeypatch):
    """Moments and momentum: three rounds and three more are six."""
    monkeypatch.setattr("random.sample", lambda population, k: sorted(population)[:k])

    def after(path, parts):
        done = 0
        for rounds in parts:
            ours = FedMerit(INSIDE[name](fraction_evaluate=0.0), ledger=path, seed=5)
            result = start(ours, Federation(first_round=done + 1), rounds=rounds)
            done += rounds
        return result.arrays, content(path)

    whole, entries = after(tmp_path / "whole.ledger", (6,))
    again, entries_again = after(tmp_path / "again.ledger", (3, 3))
    assert_same(whole, again)
    assert entries == entries_again


def test_settings_of_the_strategy_inside_may_change(tmp_path):
    path = tmp_path / "run.ledger"
    start(FedMerit(FedAdam(eta=0.05), ledger=path, seed=5), Federation(), rounds=2)
    ours = FedMerit(FedAdam(eta=0.01), ledger=path, seed=5)
    start(ours, Federation(first_round=3), rounds=1)
    assert ours.inner.eta == 0.01
    assert ours.inner.m_t.keys() == initial().keys()


def test_a_run_goes_on_with_the_rules_that_its_ledger_records(tmp_path):
    path = tmp_path / "run.ledger"
    start(strategy(path), Federation(), rounds=2)
    before = content(path)
    with pytest.raises(CheckpointError, match="got another reward"):
        start(strategy(path, reward="positive:budget=900"), Federation(first_round=3), rounds=1)
    assert content(path) == before
    registered = tuple(str(FIRST + row) for row in range(CLIENTS))
    start(strategy(path, registered=registered), Federation(first_round=3), rounds=1)
    assert [run[0] for run in content(path)[0]] == [3]


def test_a_state_that_is_gone_and_another_seed_are_told(tmp_path, caplog):
    path = tmp_path / "run.ledger"
    start(strategy(path), Federation(), rounds=1)
    with caplog.at_level(logging.WARNING, "flwr"):
        start(strategy(path, seed=6), Federation(first_round=2), rounds=1)
        assert "the run goes on with its own seed, 3, not with 6" in caplog.messages
        state_path(path).unlink()
        start(strategy(path), Federation(first_round=3), rounds=1)
    assert any("its state is not beside it: a new run begins" in line for line in caplog.messages)
