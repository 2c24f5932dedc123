"""Algorithms 1 and 2 of the paper with their dice: sampled bonus and penalty parameters."""

from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.agreement import positive_delta
from fedmerit.kernels.bits import bit_at, fill_balanced_half, random_below
from fedmerit.kernels.threads import deal


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
