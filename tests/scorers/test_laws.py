"""Laws that every agreement score must obey, and the link between the published and the exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedmerit
from fedmerit import CorrelatedAgreement, CpSGD, ExactPCA, PublishedPCA, RoundInputs, Signals
from fedmerit.sampling import halves_of_strata
from tests import naive
from tests.conftest import JIT_OFF, example_round
from tests.strategies import seeds, signal_matrices

pytestmark = pytest.mark.kernel


def inputs(values, levels):
    return RoundInputs(Signals(values, levels))


@given(signal_matrices(), seeds)
def test_exact_scores_equal_the_twin_for_every_pair(matrix, seed):
    values, levels = matrix
    k, d = values.shape
    result = ExactPCA().score(inputs(values, levels), np.random.default_rng(seed))
    order, _ = halves_of_strata(np.array([0, d]), np.random.default_rng(seed))
    first, second = order[: d // 2].tolist(), order[d // 2 :].tolist()
    for i in range(k):
        for j in range(k):
            if i == j:
                assert np.isnan(result.pairwise[i, i])
            else:
                expected = naive.exact_score(values[i], values[j], first, second, levels)
                assert result.pairwise[i, j] == pytest.approx(expected, abs=1e-12)
    assert result.scores == pytest.approx(np.nanmean(result.pairwise, axis=1), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 5])
def test_mean_of_published_runs_is_the_exact_expectation(k):
    runs = 60 if JIT_OFF else 600
    updates = example_round(clients=k, parameters=60, riders=1)
    rng = np.random.default_rng(11)
    published = PublishedPCA(peers=k - 1, bonus=20)
    sampled = np.array(
        [fedmerit.score(updates, method=published, rng=rng).scores for _ in range(runs)]
    )
    exact = np.array([fedmerit.score(updates, method="exact", rng=rng).scores for _ in range(runs)])
    difference = sampled.mean(axis=0) - exact.mean(axis=0)
    error = np.sqrt((sampled.var(axis=0) + exact.var(axis=0)) / runs)
    assert (np.abs(difference) < 4.5 * error).all()
    assert sampled.std(axis=0).min() > exact.std(axis=0).max()  # the dice cost precision


@given(signal_matrices(clients=st.integers(3, 4)), seeds)
def test_permuting_clients_permutes_exact_scores(matrix, seed):
    values, levels = matrix
    shuffle = np.random.default_rng(seed).permutation(len(values))
    before = ExactPCA().score(inputs(values, levels), np.random.default_rng(seed))
    after = ExactPCA().score(inputs(values[shuffle], levels), np.random.default_rng(seed))
    assert after.scores == pytest.approx(before.scores[shuffle], abs=1e-12)
    assert np.array_equal(after.pairwise, before.pairwise[shuffle][:, shuffle], equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scorer", [ExactPCA(), PublishedPCA(bonus=20), CorrelatedAgreement(bonus=20)]
)
def test_independent_noise_scores_zero_on_average(scorer, rng):
    runs = 25 if JIT_OFF else 250
    scores = []
    for _ in range(runs):
        updates = rng.normal(size=(3, 80))
        scores.append(
            fedmerit.score(
                updates,
                method=scorer,
                rng=rng,
            ).scores[0]
        )
    assert abs(np.mean(scores)) < 4.5 * np.std(scores) / np.sqrt(runs)


@given(st.integers(2, 6), st.integers(4, 20), seeds)
def test_identical_clients_score_the_maximum(levels, copies, seed):
    """With signals spread evenly over both halves, the score is sum of max(Delta, 0)."""
    signal = np.repeat(np.arange(levels, dtype=np.uint8), 2 * copies)
    d = len(signal)
    values = np.stack([signal, signal])
    result = ExactPCA().score(inputs(values, levels), np.random.default_rng(seed))
    order, _ = halves_of_strata(np.array([0, d]), np.random.default_rng(seed))
    expected = 0.0
    for half in (order[: d // 2], order[d // 2 :]):
        table = np.array(naive.delta(signal, signal, half, levels), dtype=float)
        expected += len(half) / d * len(half) / (len(half) - 1) * np.maximum(table, 0).sum()
    everywhere = all(
        len(np.unique(signal[half])) == levels for half in (order[: d // 2], order[d // 2 :])
    )
    if everywhere:
        assert result.scores == pytest.approx([expected, expected], abs=1e-12)
        assert result.epsilon == pytest.approx([0, 0], abs=1e-12)
    assert (result.scores <= expected + 1e-12).all()


@given(signal_matrices(clients=st.just(2)), seeds)
def test_reflecting_the_levels_changes_nothing(matrix, seed):
    """Agreement has no orientation: h-1-s scores exactly as much as s."""
    values, levels = matrix
    mirrored = values.copy()
    mirrored[0] = levels - 1 - mirrored[0]
    before = ExactPCA().score(inputs(values, levels), np.random.default_rng(seed))
    after = ExactPCA().score(inputs(mirrored, levels), np.random.default_rng(seed))
    assert after.scores == pytest.approx(before.scores, abs=1e-12)


def test_free_rider_scores_below_every_honest_client():
    updates = example_round(clients=6, parameters=6000, riders=2)
    for method in ("exact", "pca", "ca"):
        scores = fedmerit.score(updates, method=method, rng=3, levels=4).scores
        assert scores[-2:].max() < scores[:-2].min(), method


def test_wide_levels_see_nothing_of_small_updates():
    """The paper's range read literally: levels 0.029 apart cannot see updates 0.002 wide."""
    updates = 0.002 * example_round(clients=4, parameters=2000, riders=0)
    literal = fedmerit.score(updates, method="exact", quantiser=CpSGD(8, clip=0.1), rng=0).scores
    quantile = fedmerit.score(updates, method="exact", quantiser="quantile", rng=0).scores
    assert literal.max() < 0.03 < 0.1 < quantile.min()


def test_parts_of_a_score_add_up():
    updates = example_round()
    for method in ("exact", "pca", "ca"):
        result = fedmerit.score(updates, method=method, rng=0)
        compared = ~np.isnan(result.pairwise)
        agreement, chance = result.pairs.agreement[compared], result.pairs.chance[compared]
        assert agreement - chance == pytest.approx(result.pairwise[compared], abs=1e-12)
        for share in (agreement, chance):
            assert 0 <= share.min() <= share.max() <= 1


def test_correlated_agreement_equals_its_definition(rng):
    """CA with every draw fixed by the generator, against the definition written as loops."""
    levels, bonus_count = 3, 12
    values = rng.integers(0, levels, size=(3, 40), dtype=np.uint8)
    scorer = CorrelatedAgreement(bonus=bonus_count)
    result = scorer.score(inputs(values, levels), np.random.default_rng(4))

    dice = np.random.default_rng(4)
    order = dice.permutation(40)
    bonus, penalty = order[:bonus_count], np.sort(order[bonus_count:])
    table = np.zeros((levels, levels))
    for i in range(3):
        for j in range(3):
            if i != j:
                table += naive.joint_table(values[i], values[j], penalty, levels)
    table /= table.sum()
    signs = table > np.outer(table.sum(axis=1), table.sum(axis=0)) + 1e-15
    peer = dice.integers(0, 2, size=(3, bonus_count))
    q = dice.integers(0, len(penalty), size=peer.shape)
    r = dice.integers(0, len(penalty) - 1, size=peer.shape)
    for i in range(3):
        total = 0
        for n, p in enumerate(bonus):
            j = peer[i, n] + (peer[i, n] >= i)
            mine, theirs = penalty[q[i, n]], penalty[r[i, n] + (r[i, n] >= q[i, n])]
            assert mine != theirs
            total += int(signs[values[i, p], values[j, p]])
            total -= int(signs[values[i, mine], values[j, theirs]])
        assert result.scores[i] == pytest.approx(total / bonus_count, abs=1e-12)
