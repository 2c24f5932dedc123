import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedmerit
from fedmerit.errors import SettingError
from fedmerit.incentive.search import Rows, best_map, groupings
from fedmerit.incentive.truthfulness import (
    ceilings,
    certificate,
    joint_counts,
    scores,
    theorem_epsilon,
)
from fedmerit.kernels.agreement import AGREEMENT, CERTIFICATE, CHANCE, OUTPUTS, score_pairs


def naive_pair_score(own, peer, halves, levels: int) -> float:
    """Score a pair straight from the definition, with float tables."""
    deltas, sizes = [], []
    for half in (0, 1):
        inside = halves == half
        table = np.zeros((levels, levels))
        for a, b in zip(own[inside], peer[inside], strict=True):
            table[a, b] += 1
        size = inside.sum()
        table /= size
        deltas.append(table - np.outer(table.sum(1), table.sum(0)))
        sizes.append(size)
    total = 0.0
    for half in (0, 1):
        signs = deltas[1 - half] > 1e-12  # exact zeros come out as rounding here
        value = sizes[half] / (sizes[half] - 1) * (deltas[half] * signs).sum()
        total += sizes[half] / sum(sizes) * value
    return total


def correlated(rng: np.random.Generator, levels: int, size: int, peers: int = 1):
    """Draw signals of a client and peers from random joint distributions."""
    own = rng.choice(levels, size=size, p=rng.dirichlet(np.full(levels, rng.uniform(0.3, 3))))
    others = []
    for _ in range(peers):
        channel = rng.dirichlet(np.full(levels, rng.uniform(0.1, 5)), size=levels)
        drawn = rng.random(size)[:, None] > np.cumsum(channel[own], axis=1)
        others.append(np.minimum(drawn.sum(axis=1), levels - 1))
    return own, np.array(others), rng.permutation(size) % 2


def test_scores_follow_the_definition() -> None:
    rng = np.random.default_rng(1)
    for levels in (2, 3, 5, 8):
        own, peers, halves = correlated(rng, levels, 301, peers=3)
        expected = [naive_pair_score(own, peer, halves, levels) for peer in peers]
        found = scores(joint_counts(own, peers, halves, levels))
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(("levels", "rounds"), [(2, 200), (3, 120), (4, 60)])
def test_no_deterministic_map_beats_the_certificate(levels: int, rounds: int) -> None:
    """Re-label the signals themselves by all h^h maps, for many random joint distributions."""
    rng = np.random.default_rng(levels)
    maps = np.array(list(itertools.product(range(levels), repeat=levels)))
    gained = 0
    for _ in range(rounds):
        size = int(rng.integers(12, 400))
        own, peers, halves = correlated(rng, levels, size, peers=int(rng.integers(1, 4)))
        counts = joint_counts(own, peers, halves, levels)
        truth, epsilon = scores(counts).mean(), certificate(counts)
        assert epsilon >= 0
        found = [
            scores(joint_counts(mapping[own], peers, halves, levels)).mean() for mapping in maps
        ]
        assert max(found) - truth <= epsilon + 1e-12
        gained += max(found) > truth + 1e-9
        (rows,) = Rows.of(counts)
        np.testing.assert_allclose(rows.score(maps, levels), found, atol=1e-12)
    assert gained > 0  # small rounds do reward some lies: the bound was put to the test


@pytest.mark.parametrize("levels", [2, 3])
def test_no_map_per_stratum_beats_the_conditional_certificate(levels: int) -> None:
    rng = np.random.default_rng(10 + levels)
    maps = np.array(list(itertools.product(range(levels), repeat=levels)))
    for _ in range(15):
        own, peers, halves = correlated(rng, levels, int(rng.integers(20, 300)), peers=2)
        strata = rng.integers(0, 2, own.size)
        strata[:2] = 0, 1
        counts = joint_counts(own, peers, halves, levels, strata)
        limit = scores(counts).mean() + certificate(counts)
        for first, second in itertools.product(maps, maps):
            lie = np.where(strata == 0, first[own], second[own])
            assert scores(joint_counts(lie, peers, halves, levels, strata)).mean() <= limit + 1e-12


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(4, 60))
def test_ceiling_is_at_least_the_score(seed: int, levels: int, size: int) -> None:
    own, peers, halves = correlated(np.random.default_rng(seed), levels, size)
    counts = joint_counts(own, peers, halves, levels)
    assert (ceilings(counts) >= scores(counts)).all()


def test_permuting_the_names_of_levels_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    own, peers, halves = correlated(rng, 6, 500, peers=2)
    renamed = rng.permutation(6)[own]
    np.testing.assert_array_equal(
        scores(joint_counts(own, peers, halves, 6)), scores(joint_counts(renamed, peers, halves, 6))
    )


@pytest.mark.parametrize(("count", "bell"), [(1, 1), (2, 2), (3, 5), (4, 15), (8, 4140)])
def test_groupings_are_all_and_different(count: int, bell: int) -> None:
    found = list(groupings(count))
    assert len(found) == len(set(found)) == bell


def test_hill_climbing_finds_what_exhaustive_search_finds() -> None:
    rng = np.random.default_rng(3)
    close = 0
    for _ in range(20):
        own, peers, halves = correlated(rng, 6, 120, peers=2)
        (rows,) = Rows.of(joint_counts(own, peers, halves, 6))
        _, best, exhaustive = best_map(rows, 6, rng, random_maps=10, climbs=1)
        climbed = rows.climb(np.arange(6), 6, rng)
        value = rows.score(climbed[None], 6)[0]
        assert exhaustive
        assert rows.score(np.arange(6)[None], 6)[0] <= value <= best + 1e-12
        close += value >= best - 1e-3
    assert close >= 10


def test_many_levels_are_searched_and_stay_below_the_certificate() -> None:
    rng = np.random.default_rng(4)
    own, peers, halves = correlated(rng, 40, 2000, peers=2)
    counts = joint_counts(own, peers, halves, 40)
    (rows,) = Rows.of(counts)
    truth = scores(counts).mean()
    _, best, exhaustive = best_map(rows, 40, rng, random_maps=20, climbs=1)
    assert not exhaustive
    assert 0 < best - truth <= certificate(counts) + 1e-12


def test_theorem_epsilon_is_the_published_order() -> None:
    assert theorem_epsilon(8, 172_556, 0.05) == pytest.approx(0.1, abs=1e-6)
    assert theorem_epsilon(8, 4 * 1000) == pytest.approx(theorem_epsilon(8, 1000) / 2)
    with pytest.raises(SettingError, match="delta must be less than 1, got 1"):
        theorem_epsilon(8, 10, 1)


def test_certificate_and_score_are_those_of_the_scorer() -> None:
    """The scorer draws its own halves; with very many parameters they hardly matter."""
    rng = np.random.default_rng(8)
    updates = rng.normal(size=40_000) + rng.normal(size=(3, 40_000))
    signals = fedmerit.QuantileBins(4).quantise(updates, rng)
    result = fedmerit.score(signals, method="exact", rng=1)
    assert result.epsilon is not None
    halves = rng.permutation(40_000) % 2
    for client in range(3):
        peers = np.delete(signals.values, client, axis=0)
        counts = joint_counts(signals.values[client], peers, halves, 4)
        assert scores(counts).mean() == pytest.approx(result.scores[client], abs=5e-3)
        assert certificate(counts) == pytest.approx(result.epsilon[client], abs=5e-3)


def test_tables_of_the_scorers_give_the_same_numbers() -> None:
    rng = np.random.default_rng(9)
    own, peers, halves = correlated(rng, 5, 700, peers=4)
    counts = joint_counts(own, peers, halves, 5, rng.integers(0, 3, own.size))
    results = np.empty((4, OUTPUTS))
    score_pairs(counts.reshape(4, 6, 5, 5).astype(np.int32), results)
    np.testing.assert_allclose(scores(counts), results[:, AGREEMENT] - results[:, CHANCE])
    assert certificate(counts) == pytest.approx(results[:, CERTIFICATE].mean())
