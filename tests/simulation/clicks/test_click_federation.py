"""Click logs in the round loop: same loop, other model, other metric."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from fedmerit import ExactPCA, Merit
from fedmerit.aggregators.touched import mean_over_touching
from fedmerit.behaviours import Assignment, FakeData, LabelFlip, Lazy, LocalData
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.server import RoundRules
from fedmerit.simulation.clicks.generator import generate_events
from fedmerit.simulation.clicks.log import TEST, LogSettings, build_log
from fedmerit.simulation.config import DinChoice, FederationConfig
from fedmerit.simulation.data import datasets
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.metrics import auc, log_loss
from fedmerit.simulation.observe import observe_rounds
from fedmerit.simulation.run import run
from fedmerit.simulation.training.settings import LocalTraining

CONFIG = FederationConfig(
    users=20,
    per_round=6,
    rounds=3,
    model=DinChoice(embedding=4, attention=8, hidden=(16, 8)),
    training=LocalTraining(1, 2, "sgd", 0.1, 0.0),
    rules=RoundRules(ExactPCA(), "score", norm_bound=1.5),
    touched=True,
)


def ruled(config, **rules):
    return replace(config, rules=replace(config.rules, **rules))


@pytest.fixture(scope="module")
def log():
    events = generate_events(users=25, items=60, events_per_user=20)
    return build_log("clicks", events, LogSettings(history=5, split="user"))


def records_of(config, log):
    records = []
    run(Federation(config, log), on_round=records.append)
    return records


def test_rounds_are_judged_by_auc_on_test_events(log, tmp_path):
    federation = Federation(CONFIG, log)
    assert len(federation.task.test_y) == (log.part == TEST).sum()
    run(federation, folder=tmp_path)
    with (tmp_path / "rounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert all(0 < float(row["auc"]) < 1 for row in rows)


@pytest.mark.slow
def test_an_interrupted_run_continues_to_the_same_bytes(log, tmp_path):
    config = ruled(CONFIG, scorer=Merit(), weighting="gated")
    run(Federation(config, log), folder=tmp_path / "whole")
    run(Federation(replace(config, rounds=2), log), folder=tmp_path / "parts")
    run(Federation(config, log), folder=tmp_path / "parts", resume=True)
    for name in ("rounds.csv", "clients.csv"):
        parts, whole = (tmp_path / side / name for side in ("parts", "whole"))
        assert parts.read_bytes() == whole.read_bytes()


def test_scores_look_at_what_every_client_trains(log):
    (dense,) = observe_rounds(CONFIG, log, (2,))
    (whole,) = observe_rounds(replace(CONFIG, scored="all"), log, (1,))
    rows = Federation(CONFIG, log).task.rows
    assert dense.parameters == whole.parameters - len(rows)
    assert dense.public.shape[1] == len(dense.layers) == dense.parameters
    assert (dense.updates != 0).mean() > 0.9
    assert (whole.updates[:, : len(rows)] != 0).mean() < 0.5


def test_accounts_that_join_leave_the_users_as_they_were(log):
    alone = records_of(CONFIG, log)[0]
    joined = replace(CONFIG, extra=Assignment.parse("25% random-update, 25% stale"))
    together = records_of(joined, log)[0]
    assert [c.behaviour for c in together.clients][6:] == ["random-update:0.01"] * 3 + ["stale"] * 3
    assert [(c.client, c.num_examples) for c in together.clients[:6]] == [
        (c.client, c.num_examples) for c in alone.clients
    ]
    (before,) = observe_rounds(CONFIG, log, (1,))
    (after,) = observe_rounds(joined, log, (1,))
    np.testing.assert_array_equal(after.updates[:6], before.updates)
    with pytest.raises(SettingError, match="must leave room for users"):
        Federation(replace(CONFIG, extra=Assignment.parse("100% stale")), log)


def test_settings_added_later_change_the_fingerprint_only_where_they_are_used():
    digits = datasets.load("digits")
    plain = FederationConfig(users=10, per_round=5)
    first = Federation(plain, digits).fingerprint
    assert "extra" not in repr(plain)
    for other in (
        replace(plain, extra=Assignment.parse("10% stale")),
        replace(plain, touched=True),
        replace(plain, scored="all"),
    ):
        assert Federation(other, digits).fingerprint != first


def test_a_row_is_averaged_over_those_who_touched_it():
    updates = np.array([[2.0, 4.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 3.0]])
    weights = np.array([0.25, 0.75])
    rows = np.array([0, 0, 1, 1])
    change = mean_over_touching(weights @ updates, updates, weights, rows)
    assert change.tolist() == [2.0, 4.0, 0.0, 0.0, 2.5]


def test_touching_counts_in_the_round_loop(log):
    plain, touched = (Federation(replace(CONFIG, touched=t), log) for t in (False, True))
    change = []
    for federation in (plain, touched):
        state = federation.start()
        after, _ = federation.step(state)
        change.append(after.model - state.model)
    rows = len(plain.task.rows)
    np.testing.assert_array_equal(change[0][rows:], change[1][rows:])
    moved = change[0][:rows] != 0
    np.testing.assert_array_equal(moved, change[1][:rows] != 0)
    # (model + change) - model rounds, so a little below is equal
    assert (np.abs(change[1][:rows]) >= np.abs(change[0][:rows]) - 1e-6).all()
    assert np.abs(change[1][:rows]).sum() > 1.5 * np.abs(change[0][:rows]).sum()


def test_worthless_data_stays_in_the_form_of_a_log(log):
    data = LocalData(log.x[:50], log.label[:50], log.sizes)
    rng = np.random.default_rng(0)
    fake = FakeData(classes=2).local_data(data, rng)
    assert fake.x.shape == data.x.shape
    assert (fake.x < log.sizes).all()
    assert (fake.x[:, 0] > 0).all()
    assert (fake.x[:, 0] != data.x[:, 0]).mean() > 0.8
    assert LabelFlip(1, 2).local_data(data, rng).y.tolist() == (1 - data.y).tolist()
    lazy = Lazy(samples=3).local_data(data, rng)
    assert (len(lazy.y), lazy.sizes) == (3, log.sizes)


def test_auc_against_counting_pairs(rng):
    scores, labels = rng.integers(0, 6, 60) / 5, rng.integers(0, 2, 60)
    ones, zeros = scores[labels == 1], scores[labels == 0]
    pairs = (ones[:, None] > zeros) + 0.5 * (ones[:, None] == zeros)
    assert auc(scores, labels) == pytest.approx(pairs.mean())
    assert auc(np.full(60, np.nan), labels) == 0.5
    assert log_loss(np.array([0.0, 0.0]), np.array([0, 1])) == pytest.approx(np.log(2))


def test_what_does_not_fit_says_why(log):
    with pytest.raises(SettingError, match="users must be at most 25"):
        Federation(replace(CONFIG, users=100), log)
    with pytest.raises(SettingError, match="click log and needs model din"):
        Federation(FederationConfig(users=20, per_round=5), log)
    with pytest.raises(SettingError, match="a DIN needs a click log, got digits"):
        Federation(CONFIG, datasets.load("digits"))
    with pytest.raises(SettingError, match="touched needs rule mean, got median"):
        ruled(CONFIG, rule="median")
    with pytest.raises(UnknownNameError, match="scored must be one of all, dense"):
        replace(CONFIG, scored="some")
