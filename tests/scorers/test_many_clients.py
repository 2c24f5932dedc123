"""Large rounds: comparisons by plan, panels, streams, and what a sample costs in accuracy."""

import numpy as np
import pytest

import fedmerit
from fedmerit.comparison import PairScores, draw_panels, plan_comparisons
from fedmerit.errors import InvalidInputError, SettingError, UpdatesError
from fedmerit.flags import Flag, Kind
from tests.conftest import JIT_OFF
from tests.rounds import public_round


@pytest.mark.parametrize(("clients", "peers"), [(5, 2), (9, 4), (10, 3), (50, 6), (12, 10)])
def test_a_plan_is_symmetric_connected_and_uses_everybody_equally(clients, peers, rng):
    plan = plan_comparisons(clients, peers, rng)
    met = np.zeros((clients, clients), dtype=bool)
    met[tuple(plan.T)] = True
    assert len(plan) == met.sum()  # no pair twice
    assert (met == met.T).all()
    assert not met.diagonal().any()
    assert (met.sum(axis=1) == peers + peers % 2).all()
    reached = np.linalg.matrix_power(met.astype(float) + np.eye(clients), clients) > 0
    assert reached.all()


def test_all_others_as_peers_means_everybody(rng):
    assert len(plan_comparisons(4, 3, rng)) == len(plan_comparisons(4, None, rng)) == 12
    with pytest.raises(SettingError, match="peers must be at least 1, got 0"):
        plan_comparisons(4, 0, rng)


def test_panels_hold_everybody_once_and_differ_by_at_most_one(rng):
    panels = draw_panels(1000, 256, rng)
    assert sorted(np.concatenate(panels)) == list(range(1000))
    assert {len(panel) for panel in panels} == {250}
    assert [p.tolist() for p in draw_panels(3, 256, rng)] == [[0, 1, 2]]


def test_merit_of_panels_is_found_under_the_clients_own_numbers(monkeypatch):
    monkeypatch.setattr("fedmerit.scorers.merit.PANEL", 7)
    world = public_round(clients=12, parameters=4000)
    updates = world.with_riders(world.last_update, world.noise(0.003))
    result = fedmerit.score(updates, public=world.public, rng=0)
    assert result.flagged.tolist() == [False] * 12 + [True, True]
    assert result.flags[12].kind is Kind.EXPLAINED
    assert result.flags[13] == Flag(Kind.INDEPENDENT)
    assert (result.scores[:12] > 0).all()
    compared = ~np.isnan(result.pairwise)
    assert (compared.sum(axis=1) == 6).all()
    assert (compared == compared.T).all()


def test_matrices_of_very_many_clients_are_left_out():
    few = PairScores(2, np.array([[0, 1], [1, 0]]), *np.ones((5, 2)))
    found = few.matrices()
    for matrix in (found.score, found.agreement, found.chance, found.z):
        assert matrix[0, 1] == matrix[1, 0] == 1
        assert np.isnan(np.diagonal(matrix)).all()
    ring = np.column_stack((np.arange(5000), np.roll(np.arange(5000), 1)))
    many = PairScores(5000, ring, *np.ones((5, 5000)))
    assert many.matrices() is None


@pytest.mark.parametrize(
    ("clients", "peers", "kept"), [(256, 4, True), (400, 4, False), (400, None, True)]
)
def test_matrices_that_would_be_nearly_empty_are_left_out(clients, peers, kept):
    ordered = plan_comparisons(clients, peers, np.random.default_rng(0))
    ones = np.ones(len(ordered))
    pairs = PairScores(clients, ordered, ones, ones, ones, ones, ones)
    assert (pairs.matrices() is not None) == kept


def test_a_streamed_round_equals_the_round_at_once():
    world = public_round(clients=40, parameters=3000)
    updates = world.with_riders(world.last_update, world.noise(0.003)).astype(np.float32)
    public = world.public.astype(np.float32)
    stream = fedmerit.StreamedRound(3000, 60, public=public, rng=5)
    for update in updates:
        stream.add(update)
    streamed = stream.finish()
    at_once = fedmerit.score(updates, method="conditional", public=public, rng=5)
    assert streamed.scores.tolist() == at_once.scores.tolist()
    assert streamed.flags == at_once.flags
    assert streamed.evidence.explained == pytest.approx(at_once.evidence.explained)


def test_a_streamed_round_refuses_what_does_not_fit():
    stream = fedmerit.StreamedRound(100, 2, rng=0)
    with pytest.raises(UpdatesError, match=r"vector of 100 parameters, got \(7,\)"):
        stream.add(np.ones(7))
    with pytest.raises(InvalidInputError, match="update must be finite"):
        stream.add(np.full(100, np.nan))
    with pytest.raises(UpdatesError, match="at least 2 clients, got 0"):
        stream.finish()
    stream.add(np.arange(100.0))
    stream.add(np.arange(100.0) ** 2)
    with pytest.raises(UpdatesError, match="opened for 2 clients"):
        stream.add(np.arange(100.0))


@pytest.mark.skipif(JIT_OFF, reason="40,000 parameters take minutes without the compiler")
def test_agreement_on_a_sample_stays_within_its_stated_error():
    """Hoeffding's bound, on real pairs: the whole has 40,000 parameters, the sample 1,700."""
    world = public_round(clients=6, parameters=40_000)
    updates = world.honest.astype(np.float32)
    whole = fedmerit.score(updates, method="conditional", sample=None, strata=1, rng=0)
    size = fedmerit.sample_size(0.05, 0.01, 6)
    assert 1_000 < size < 2_000
    worst = max(
        np.nanmax(np.abs(part.pairs.agreement - whole.pairs.agreement))
        for seed in range(20)
        for part in [fedmerit.score(updates, method="conditional", sample=size, strata=1, rng=seed)]
    )
    assert worst < 0.05


def test_values_outside_the_sample_are_left_to_the_aggregation():
    updates = np.random.default_rng(0).normal(size=(3, 200_000)).astype(np.float32)
    updates[1, 77] = np.nan
    seen = fedmerit.score(updates, method="conditional", sample=300, rng=0)
    assert np.isfinite(seen.scores).all()
    with pytest.raises(UpdatesError, match="at client 1, parameter 77"):
        fedmerit.aggregate(updates, np.ones(3))
    with pytest.raises(UpdatesError, match="at client 1, parameter 77"):
        fedmerit.score(updates, method="conditional", sample=None, rng=0)
