"""What the benchmarks are made of: holdings, games, null reports, judgements."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from fedmerit.evidence.cohort import find_cohort
from fedmerit.experiments.benchmark.attacks.benchmark import judge
from fedmerit.experiments.benchmark.contribution.game import PerceptronGame
from fedmerit.experiments.benchmark.contribution.holdings import FEW, SETUPS, unit
from fedmerit.experiments.benchmark.free_riders.benchmark import FULL, QUICK, configure, detect
from fedmerit.experiments.benchmark.null.benchmark import decisions, null_reports
from fedmerit.experiments.benchmark.panel import Panel
from fedmerit.flags import Flag, Kind
from fedmerit.scorers import SCORERS, Merit
from fedmerit.simulation.data import datasets
from fedmerit.simulation.training.models import build_model
from fedmerit.simulation.training.network import Network
from fedmerit.types import Contributions, Pairs, RoundInputs
from tests.evidence.cohorts import result_from


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits")


@pytest.mark.parametrize("name", SETUPS)
def test_holdings_are_disjoint_and_ordered(digits, name):
    held = SETUPS[name](digits, np.random.default_rng(1))
    assert len(held.clients) == len(held.truth) == 8
    assert len(held.few.y) == FEW
    pixels = np.concatenate([d.x.reshape(len(d.y), -1) for d in (*held.clients, held.few)])
    all_pixels = digits.train_x.reshape(len(digits.train_y), -1)
    repeated = len(all_pixels) - len(np.unique(all_pixels, axis=0))
    assert len(pixels) - len(np.unique(pixels, axis=0)) <= repeated


def test_holdings_differ_as_they_say(digits):
    rng = np.random.default_rng(2)
    noisy = SETUPS["label noise"](digits, rng)
    truth = {x.tobytes(): y for x, y in zip(digits.train_x, digits.train_y, strict=True)}
    wrong = [
        np.mean([truth[x.tobytes()] != y for x, y in zip(d.x, d.y, strict=True)])
        for d in noisy.clients
    ]
    assert wrong == pytest.approx([i / 10 for i in range(8)], abs=0.01)
    sizes = [len(d.y) for d in SETUPS["quantity"](digits, rng).clients]
    assert sizes == sorted(sizes)
    assert sizes[3] == unit(digits)
    skewed = SETUPS["classes"](digits, rng).clients
    assert [len(np.unique(d.y)) for d in skewed] == list(range(2, 10))
    *others, rare = SETUPS["rare class"](digits, rng).clients
    known = set(np.concatenate([d.y for d in others]).tolist())
    alone = [label for label in rare.y.tolist() if label not in known]
    assert len(set(alone)) == 1
    assert len(alone) == len(rare.y) // 2


def test_the_game_is_the_accuracy_of_the_mean_update(digits):
    shape, rng = digits.train_x.shape[1:], np.random.default_rng(3)
    network = Network(build_model("mlp", shape, 10, rng, hidden=16, dropout=0.0), shape)
    model = network.flatten()
    updates = rng.normal(0, 0.1, (3, model.size)).astype(np.float32)
    x, y = digits.test_x[:120], digits.test_y[:120]
    game = PerceptronGame(network, model, updates, x, y)
    for chosen in ((), (1,), (0, 2), (0, 1, 2)):
        change = updates[list(chosen)].mean(axis=0) if chosen else 0
        assert game(chosen) == pytest.approx(network.evaluate(model + change, x, y)[1])


def test_null_reports_keep_marginals():
    rng = np.random.default_rng(4)
    layers = np.repeat([0, 1], 50)
    inputs = RoundInputs(rng.normal(size=(3, 100)), rng.normal(size=(1, 100)), layers)
    permuted = null_reports(inputs, "permuted", rng)
    assert np.array_equal(np.sort(permuted, axis=1), np.sort(inputs.updates, axis=1))
    layered = null_reports(inputs, "permuted in layers", rng)
    assert np.array_equal(np.sort(layered[:, :50]), np.sort(inputs.updates[:, :50]))
    drawn = null_reports(inputs, "drawn", rng)
    assert all(np.isin(new, old).all() for new, old in zip(drawn, inputs.updates, strict=True))
    replay = null_reports(inputs, "replay + noise", rng)
    assert np.corrcoef(replay[0], inputs.public[0])[0, 1] > 0.9


@pytest.mark.parametrize("step", [-1e-6, 1e-6])
def test_the_join_rule_is_the_cohorts(step):
    z = np.zeros((5, 5))
    np.fill_diagonal(z, np.nan)
    z[0, 1] = z[1, 0] = NormalDist().inv_cdf(1 - 0.01 / 10) + step
    nobody = Contributions.of("conditional", np.zeros(5), pairs=Pairs(z, z=z))
    joined = decisions(nobody, nobody, 0.01)["any join, all null"]
    cohort = find_cohort(z, np.zeros(5, dtype=np.bool_), 1000)
    assert joined.tolist() == [step > 0] == [bool(cohort.members.any())]


def test_judgement_counts_from_the_third_round():
    early = Contributions.of("merit", np.array([0.0, 0.0, 9.0]))
    pairs = Pairs(np.zeros((3, 3)), z=np.zeros((3, 3)))
    late = Contributions.of("merit", np.array([1.0, 3.0, 0.5]), pairs=pairs)
    told = judge([early, early, late, late], [False, False, True], flags=False)
    assert told.auc == 1
    assert told.reward == pytest.approx(0.25)
    assert told.honest_paid == 1
    assert np.isnan(told.flagged)


def test_the_panel_decides_as_merit_and_hears_all():
    rng = np.random.default_rng(5)
    inputs = RoundInputs(rng.normal(size=(4, 600)) + rng.normal(size=600))
    panel = Panel()
    decided = panel.score(inputs, np.random.default_rng(0))
    alone = Merit().score(inputs, np.random.default_rng(0))
    assert np.array_equal(decided.scores, alone.scores)
    assert {name: len(heard) for name, heard in panel.heard.items()} == dict.fromkeys(SCORERS, 1)


def test_free_rider_cells_are_the_published_ones():
    cells = FULL.cells()
    assert len([cell for cell in cells if cell[1] != "none"]) == 24
    assert {cell[0] for cell in cells} == {10, 100}
    assert len(QUICK.cells()) == 13
    config = configure(100, "adaptive", 0.3, 1)
    assert config.model.name == "lenet5"
    assert (config.training.batch_size, config.training.epochs) == (32, 1)
    assert config.per_round == config.users == 100
    assert str(config.behaviours) == "30% adaptive:0.001"


def test_flagged_once_stays_flagged():
    z = np.full((4, 4), 30.0)
    z[3, :] = z[:, 3] = 0.0
    np.fill_diagonal(z, np.nan)
    clean = result_from(z)
    odd = replace(clean, flags=(None, Flag(Kind.CLIQUE), None, None))
    found = detect([odd, *[clean] * 8])
    assert found["round"] == {1}
    assert found["watch"] == {3}
