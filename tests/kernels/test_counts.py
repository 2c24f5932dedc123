import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit.comparison import joint_counts
from fedmerit.kernels.agreement import (
    AGREEMENT,
    CERTIFICATE,
    CHANCE,
    OUTPUTS,
    VARIANCE,
    positive_delta,
    sample_agreement,
    score_half,
    score_pairs,
)
from fedmerit.kernels.counts import TILE
from fedmerit.scorers.published import pack_bits
from fedmerit.types import Signals
from tests import naive
from tests.strategies import seeds, signal_matrices

pytestmark = pytest.mark.kernel


def all_pairs(clients):
    return np.column_stack(np.triu_indices(clients, 1)).astype(np.int64)


def counted(values, levels, order, starts, pairs):
    counts = np.empty((len(pairs), len(starts) - 1, levels, levels), dtype=np.int32)
    for block, part in joint_counts(Signals(values, levels), order, starts, pairs):
        counts[block] = part
    return counts


@given(signal_matrices(), seeds)
def test_counts_equal_their_twin_in_every_group(matrix, seed):
    values, levels = matrix
    clients, d = values.shape
    order = np.random.default_rng(seed).permutation(d)
    starts = np.array([0, d // 3, d // 2, d], dtype=np.int64)
    pairs = all_pairs(clients)
    counts = counted(values, levels, order, starts, pairs)
    for index, (i, j) in enumerate(pairs):
        for group in range(3):
            members = order[starts[group] : starts[group + 1]]
            expected = naive.joint_table(values[i], values[j], members, levels)
            assert counts[index, group].tolist() == expected


@pytest.mark.parametrize("levels", [2, 16, 17, 256])
def test_planes_and_histogram_count_the_same_over_tile_borders(levels, rng):
    d = TILE + 100 if levels in (2, 17) else 700
    values = rng.integers(0, levels, size=(3, d), dtype=np.uint8)
    order = rng.permutation(d)
    starts = np.array([0, 65, d], dtype=np.int64)
    counts = counted(values, levels, order, starts, all_pairs(3))
    for index, (i, j) in enumerate(all_pairs(3)):
        cells = values[i].astype(np.int64) * levels + values[j]
        for group in range(2):
            members = cells[order[starts[group] : starts[group + 1]]]
            expected = np.bincount(members, minlength=levels * levels)
            assert (counts[index, group].ravel() == expected).all()


@given(signal_matrices(clients=st.just(2)))
def test_rows_and_columns_of_delta_sum_to_zero(matrix):
    (mine, peer), levels = matrix
    table = naive.delta(mine, peer, range(len(mine)), levels)
    assert all(sum(row) == 0 for row in table)
    assert all(sum(row[b] for row in table) == 0 for b in range(levels))


@given(signal_matrices(clients=st.just(2)))
def test_sign_of_delta_equals_its_twin(matrix):
    (mine, peer), levels = matrix
    members = range(len(mine))
    counts = np.array(naive.joint_table(mine, peer, members, levels), dtype=np.int32)
    expected = [[entry > 0 for entry in row] for row in naive.delta(mine, peer, members, levels)]
    assert positive_delta(counts).tolist() == expected


@given(signal_matrices(clients=st.just(2)), seeds)
def test_exact_score_and_certificate_equal_their_twins(matrix, seed):
    values, levels = matrix
    d = values.shape[1]
    order = np.random.default_rng(seed).permutation(d)
    first, second = order[: d // 2].tolist(), order[d // 2 :].tolist()
    counts = counted(values, levels, order, np.array([0, d // 2, d]), all_pairs(2))
    results = np.empty((1, OUTPUTS))
    score_pairs(counts, results)
    expected = naive.exact_score(*values, first, second, levels)
    assert results[0, AGREEMENT] - results[0, CHANCE] == pytest.approx(expected, abs=1e-12)
    bound = naive.certificate(*values, first, second, levels)
    assert results[0, CERTIFICATE] == pytest.approx(bound, abs=1e-12)
    assert results[0, CERTIFICATE] >= -1e-12


@given(signal_matrices(levels=st.integers(2, 4)), seeds, st.integers(1, 5))
def test_published_hits_equal_their_twin(matrix, seed, wanted):
    values, levels = matrix
    d = values.shape[1]
    if d < 6:
        return
    bonus = np.random.default_rng(seed).permutation(d)[: min(wanted, d // 2 - 2)]
    hits = np.zeros((1, 2), dtype=np.int64)
    pair_seed = np.array([seed], dtype=np.uint64)
    pairs = np.array([[0, 1]], dtype=np.int64)
    sample_agreement(values, levels, bonus, pack_bits(bonus, d), pairs, pair_seed, hits)
    assert tuple(hits[0]) == naive.published_hits(*values[:2], levels, bonus.tolist(), seed)


def test_null_variance_is_that_of_random_permutations(rng):
    n, levels, draws = 40, 3, 4000
    mine = rng.integers(0, levels, size=n, dtype=np.uint8)
    peer = rng.integers(0, levels, size=n, dtype=np.uint8)
    signs = rng.integers(0, 2, size=(levels, levels)).astype(np.bool_)
    counts = np.array(naive.joint_table(mine, peer, range(n), levels), dtype=np.int32)
    _, _, variance, _ = score_half(counts, n, signs)
    expected = signs[mine][:, peer].mean()
    scores = [
        n / (n - 1) * (signs[mine, peer[rng.permutation(n)]].mean() - expected)
        for _ in range(draws)
    ]
    assert np.mean(scores) == pytest.approx(0, abs=4 * np.sqrt(variance / draws))
    assert np.var(scores) == pytest.approx(variance, rel=0.1)


def test_deviation_of_a_score_is_that_of_its_halves_added_up(rng):
    counts = rng.integers(1, 20, size=(1, 2, 3, 3), dtype=np.int32)
    sizes = counts[0].sum(axis=(1, 2))
    halves = [
        score_half(counts[0, side], sizes[side], positive_delta(counts[0, 1 - side]))
        for side in (0, 1)
    ]
    results = np.empty((1, OUTPUTS))
    score_pairs(counts, results)
    share = sizes / sizes.sum()
    deviation = share[0] * np.sqrt(halves[0][2]) + share[1] * np.sqrt(halves[1][2])
    assert np.sqrt(results[0, VARIANCE]) == pytest.approx(deviation, rel=1e-12)
