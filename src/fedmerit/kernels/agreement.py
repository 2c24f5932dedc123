"""From signals to scores: the expectation of Algorithm 2 and what is known about it, and its dice.

`score_pairs` takes joint counts. Groups come in twos: groups 2c and 2c + 1 are the random halves A
and B of stratum c. A half is scored with the signs that the other half shows, so that no parameter
judges itself. `sample_agreement` is Algorithms 1 and 2 of the paper as published: bonus and penalty
parameters are sampled.
"""

from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.bits import bit_at, fill_balanced_half, random_below
from fedmerit.kernels.threads import deal

AGREEMENT, CHANCE, VARIANCE, CERTIFICATE = 0, 1, 2, 3
OUTPUTS = 4
_TOGETHER = 8  # pairs that a thread takes at least


def score_pairs(counts: NDArray[np.int32], results: NDArray[np.float64]) -> None:
    """Fill `results`, (pairs, 4), from `counts`, (pairs, 2 * strata, levels, levels).

    Columns: AGREEMENT on the same parameter and CHANCE on two different ones (the score is their
    difference); VARIANCE of the score if the two clients were independent; CERTIFICATE, the most
    that re-labelling its own signals could have added for either client.
    """
    deal(partial(_score_pairs, counts, results), counts.shape[0], _TOGETHER)


@njit(cache=True, nogil=True, error_model="numpy")  # nobody is compared on nothing
def _score_pairs(
    counts: NDArray[np.int32], results: NDArray[np.float64], begin: int, end: int
) -> None:
    levels = counts.shape[2]
    # Made once: small tables are scored in less time than an array is made.
    rows, columns = np.empty((2, levels), np.int64), np.empty((2, levels), np.int64)
    signs = np.empty((2, levels, levels), np.bool_)
    means = np.empty((3, levels))
    sizes = np.empty(2, np.int64)
    for pair in range(begin, end):
        total, agreement, chance, variance, certificate = 0, 0.0, 0.0, 0.0, 0.0
        for stratum in range(counts.shape[1] // 2):
            for side in range(2):
                half = counts[pair, 2 * stratum + side]
                sizes[side] = _fill_marginals(half, rows[side], columns[side])
                _fill_signs(half, sizes[side], rows[side], columns[side], signs[side])
            deviation = 0.0
            for side in range(2):
                size = sizes[side]
                total += size
                if size < 2:
                    continue
                same, apart, spread, gain = _score_half(
                    counts[pair, 2 * stratum + side],
                    size,
                    rows[side],
                    columns[side],
                    signs[1 - side],
                    means,
                )
                # Algorithm 2 averages over bonus parameters, so a half counts by its size.
                agreement += size * same
                chance += size * apart
                certificate += size * gain
                # The scores of two halves are positively correlated even for independent clients
                # (each is high when the halves happen to agree). Adding their deviations bounds
                # the deviation of the sum whatever the correlation is.
                deviation += size * np.sqrt(spread)
            variance += deviation * deviation
        results[pair, AGREEMENT] = agreement / total
        results[pair, CHANCE] = chance / total
        results[pair, VARIANCE] = variance / total / total
        results[pair, CERTIFICATE] = certificate / total


@njit(cache=True, nogil=True)
def positive_delta(counts: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Sign of Delta, in whole numbers: T(a,b) > T(a) T(b) exactly when n c(a,b) > c(a) c(b)."""
    levels = counts.shape[0]
    rows, columns = np.empty(levels, np.int64), np.empty(levels, np.int64)
    signs = np.empty((levels, levels), dtype=np.bool_)
    size = _fill_marginals(counts, rows, columns)
    _fill_signs(counts, size, rows, columns, signs)
    return signs


@njit(cache=True, nogil=True)
def score_half(
    counts: NDArray[np.int32], size: int, signs: NDArray[np.bool_]
) -> tuple[float, float, float, float]:
    """Score one half with given signs: agreement, chance, null variance, certificate."""
    levels = counts.shape[0]
    rows, columns = np.empty(levels, np.int64), np.empty(levels, np.int64)
    _fill_marginals(counts, rows, columns)
    return _score_half(counts, size, rows, columns, signs, np.empty((3, levels)))


@njit(cache=True, nogil=True)
def _fill_marginals(
    counts: NDArray[np.integer], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> np.int64:
    levels = counts.shape[0]
    for b in range(levels):
        columns[b] = 0
    size = np.int64(0)
    for a in range(levels):
        line, total = counts[a], np.int64(0)
        for b in range(levels):
            total += np.int64(line[b])
            columns[b] += line[b]
        rows[a] = total
        size += total
    return size


@njit(cache=True, nogil=True)
def _fill_signs(
    counts: NDArray[np.integer],
    size: np.int64,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    signs: NDArray[np.bool_],
) -> None:
    for a in range(counts.shape[0]):
        line, row, into = counts[a], rows[a], signs[a]
        for b in range(counts.shape[0]):
            into[b] = size * np.int64(line[b]) > row * columns[b]


@njit(cache=True, nogil=True, error_model="numpy")
def _score_half(
    counts: NDArray[np.int32],
    size: int,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    signs: NDArray[np.bool_],
    means: NDArray[np.float64],
) -> tuple[float, float, float, float]:
    """Score a half whose marginals are known; `means`, (3, levels), is room to work in."""
    levels = counts.shape[0]
    row_mean, column_mean, squares = means[0], means[1], means[2]
    for b in range(levels):
        column_mean[b] = squares[b] = 0.0
    # Sums of whole numbers, here also those in floats: exact in any order.
    hits, expected_hits, positive = np.int64(0), np.int64(0), np.int64(0)
    for a in range(levels):
        line, row, sign = counts[a], rows[a], signs[a]
        hit, expected = np.int64(0), np.int64(0)
        for b in range(levels):
            cell = np.int64(line[b])
            positive += max(size * cell - row * columns[b], 0)
            hit += cell if sign[b] else 0
            expected += columns[b] if sign[b] else 0
            column_mean[b] += row if sign[b] else 0.0
        hits += hit
        expected_hits += row * expected
        row_mean[a] = expected / size
    agreement = hits / size
    # Two different parameters, q != q': all n^2 combinations less the n that coincide.
    chance = (expected_hits - hits) / (size * (size - 1.0))
    certificate = positive / (size * (size - 1.0)) - (agreement - chance)

    # Permutation variance of a mean of S(s_i[p], s_j[p]): the doubly centred S, squared.
    overall = expected_hits / (size * np.float64(size))
    for b in range(levels):
        column_mean[b] /= size
    for a in range(levels):
        shift, row, sign = overall - row_mean[a], rows[a], signs[a]
        for b in range(levels):
            centred = (1.0 if sign[b] else 0.0) - column_mean[b] + shift
            squares[b] += row * (centred * centred)
    spread = 0.0
    for b in range(levels):
        spread += columns[b] * squares[b]
    variance = spread / (size - 1.0) ** 3
    return agreement, chance, variance, certificate


def sample_agreement(
    signals: NDArray[np.uint8],
    levels: int,
    bonus: NDArray[np.int64],
    is_bonus: NDArray[np.uint64],
    pairs: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    hits: NDArray[np.int64],
) -> None:
    """Count, for each ordered pair, the bonus (column 0) and penalty (column 1) hits.

    Every pair has its own seed: it first makes the pair's halves A and B, then picks the penalty
    parameters q and q' in the same half as the bonus parameter they belong to.
    """
    sample = partial(_sample, signals, levels, bonus, is_bonus, pairs, seeds, hits)
    deal(sample, pairs.shape[0])


@njit(cache=True, nogil=True)
def _sample(
    signals: NDArray[np.uint8],
    levels: int,
    bonus: NDArray[np.int64],
    is_bonus: NDArray[np.uint64],
    pairs: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    hits: NDArray[np.int64],
    begin: int,
    end: int,
) -> None:
    parameters = signals.shape[1]
    half = np.empty((parameters + 63) // 64, dtype=np.uint64)
    for pair in range(begin, end):
        mine, peer, seed = signals[pairs[pair, 0]], signals[pairs[pair, 1]], seeds[pair]
        used = fill_balanced_half(seed, parameters, half)
        signs_of_zeros, signs_of_ones = _signs_by_half(mine, peer, levels, half)
        for p in bonus:
            side = bit_at(half, p)
            judge = signs_of_zeros if side else signs_of_ones
            q = p
            while bit_at(is_bonus, q) or bit_at(half, q) != side:
                q = random_below(seed, used, parameters)
                used += 1
            q_peer = q
            while q_peer == q or bit_at(is_bonus, q_peer) or bit_at(half, q_peer) != side:
                q_peer = random_below(seed, used, parameters)
                used += 1
            hits[pair, 0] += judge[mine[p], peer[p]]
            hits[pair, 1] += judge[mine[q], peer[q_peer]]


@njit(cache=True, nogil=True)
def _signs_by_half(
    mine: NDArray[np.uint8], peer: NDArray[np.uint8], levels: int, half: NDArray[np.uint64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Algorithm 1: where Delta > 0, for the parameters whose bit is 0 and for those with 1."""
    counts = np.zeros((2, levels, levels), dtype=np.int64)
    cells = counts.ravel()  # one place for both halves: random bits cannot be foreseen
    for p in range(mine.shape[0]):
        cells[np.uint64((bit_at(half, p) * levels + mine[p]) * levels + peer[p])] += 1
    return positive_delta(counts[0]), positive_delta(counts[1])
