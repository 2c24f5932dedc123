"""From joint counts to scores: the expectation of Algorithm 2 and what is known about it.

Groups come in twos: groups 2c and 2c + 1 are the random halves A and B of stratum c. A half is
scored with the signs that the other half shows, so that no parameter judges itself.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

AGREEMENT, CHANCE, VARIANCE, CERTIFICATE = 0, 1, 2, 3
OUTPUTS = 4


@njit(cache=True, parallel=True)
def score_pairs(counts: NDArray[np.int32], results: NDArray[np.float64]) -> None:
    """Fill `results`, (pairs, 4), from `counts`, (pairs, 2 * strata, levels, levels).

    Columns: AGREEMENT on the same parameter and CHANCE on two different ones (the score is their
    difference); VARIANCE of the score if the two clients were independent; CERTIFICATE, the most
    that re-labelling its own signals could have added for either client.
    """
    for pair in prange(counts.shape[0]):
        total = counts[pair].sum()
        agreement, chance, variance, certificate = 0.0, 0.0, 0.0, 0.0
        for stratum in range(counts.shape[1] // 2):
            deviation = 0.0
            for side in range(2):
                own = counts[pair, 2 * stratum + side]
                size = own.sum()
                if size < 2:
                    continue
                signs = positive_delta(counts[pair, 2 * stratum + 1 - side])
                same, apart, spread, gain = score_half(own, size, signs)
                # Algorithm 2 averages over bonus parameters, so a half counts by its size.
                share = size / total
                agreement += share * same
                chance += share * apart
                certificate += share * gain
                # The scores of two halves are positively correlated even for independent clients
                # (each is high when the halves happen to agree). Adding their deviations bounds
                # the deviation of the sum whatever the correlation is.
                deviation += share * np.sqrt(spread)
            variance += deviation * deviation
        results[pair, AGREEMENT] = agreement
        results[pair, CHANCE] = chance
        results[pair, VARIANCE] = variance
        results[pair, CERTIFICATE] = certificate


@njit(cache=True)
def positive_delta(counts: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Sign of Delta, in whole numbers: T(a,b) > T(a) T(b) exactly when n c(a,b) > c(a) c(b)."""
    levels = counts.shape[0]
    rows, columns = _marginals(counts)
    size = rows.sum()
    signs = np.zeros((levels, levels), dtype=np.bool_)
    for a in range(levels):
        for b in range(levels):
            signs[a, b] = size * np.int64(counts[a, b]) > rows[a] * columns[b]
    return signs


@njit(cache=True)
def _marginals(counts: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    levels = counts.shape[0]
    rows = np.zeros(levels, dtype=np.int64)
    columns = np.zeros(levels, dtype=np.int64)
    for a in range(levels):
        for b in range(levels):
            rows[a] += counts[a, b]
            columns[b] += counts[a, b]
    return rows, columns


@njit(cache=True)
def score_half(
    counts: NDArray[np.int32], size: int, signs: NDArray[np.bool_]
) -> tuple[float, float, float, float]:
    """Score one half with given signs: agreement, chance, null variance, certificate."""
    levels = counts.shape[0]
    rows, columns = _marginals(counts)
    hits, expected_hits, positive = 0, 0, 0.0
    row_mean = np.zeros(levels)
    column_mean = np.zeros(levels)
    for a in range(levels):
        for b in range(levels):
            surplus = size * np.int64(counts[a, b]) - rows[a] * columns[b]
            if surplus > 0:
                positive += surplus
            if signs[a, b]:
                hits += counts[a, b]
                expected_hits += rows[a] * columns[b]
                row_mean[a] += columns[b] / size
                column_mean[b] += rows[a] / size
    agreement = hits / size
    # Two different parameters, q != q': all n^2 combinations less the n that coincide.
    chance = (expected_hits - hits) / (size * (size - 1.0))
    certificate = positive / (size * (size - 1.0)) - (agreement - chance)

    # Permutation variance of a mean of S(s_i[p], s_j[p]): the doubly centred S, squared.
    overall = expected_hits / (size * np.float64(size))
    spread = 0.0
    for a in range(levels):
        for b in range(levels):
            centred = (1.0 if signs[a, b] else 0.0) - row_mean[a] - column_mean[b] + overall
            spread += rows[a] * columns[b] * centred * centred
    variance = spread / (size - 1.0) ** 3
    return agreement, chance, variance, certificate
