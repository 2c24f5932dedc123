"""From floats to one-byte levels: stochastic rounding, equal-width bins, equal-frequency bins."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from fedmerit.kernels.bits import random_unit
from fedmerit.kernels.magnitudes import float_bits

_COARSE_BITS = 16
# So many order statistics of one coarse bin are found without sorting it.
_FEW_RANKS = 3
_COARSE_BINS = 1 << _COARSE_BITS


@njit(cache=True, parallel=True)
def round_stochastically(
    updates: NDArray[np.floating],
    levels: int,
    clip: float,
    seeds: NDArray[np.uint64],
    signals: NDArray[np.uint8],
) -> None:
    """Clip to [-clip, clip] and round to one of two neighbouring levels, without bias."""
    for i in prange(updates.shape[0]):
        _round_row(updates[i], levels, clip, seeds[i], signals[i])


@njit(cache=True)
def _round_row(
    updates: NDArray[np.floating],
    levels: int,
    clip: float,
    seed: np.uint64,
    signals: NDArray[np.uint8],
) -> None:
    steps_per_unit = (levels - 1) / (2.0 * clip)
    for p in range(updates.shape[0]):
        position = (min(max(np.float64(updates[p]), -clip), clip) + clip) * steps_per_unit
        lower = np.floor(position)
        up = 1.0 if random_unit(seed, p) < position - lower else 0.0
        signals[p] = np.uint8(min(lower + up, levels - 1.0))


@njit(cache=True, parallel=True)
def add_from_table(
    signals: NDArray[np.uint8], cumulative: NDArray[np.float64], seeds: NDArray[np.uint64]
) -> None:
    """Add to every signal an independent draw from the distribution with these cumulatives."""
    for i in prange(signals.shape[0]):
        for p in range(signals.shape[1]):
            draw = np.searchsorted(cumulative, random_unit(seeds[i], p), side="right")
            signals[i, p] = np.uint8(signals[i, p] + draw)


@njit(cache=True, parallel=True)
def bin_uniformly(
    updates: NDArray[np.floating], levels: int, clip: float, signals: NDArray[np.uint8]
) -> None:
    """Assign equal-width bins over [-clip, clip]; values outside fall into the end bins."""
    for i in prange(updates.shape[0]):
        _bin_row_uniformly(updates[i], levels, clip, signals[i])


@njit(cache=True)
def _bin_row_uniformly(
    updates: NDArray[np.floating], levels: int, clip: float, signals: NDArray[np.uint8]
) -> None:
    bins_per_unit = levels / (2.0 * clip)
    for p in range(updates.shape[0]):
        position = np.floor((np.float64(updates[p]) + clip) * bins_per_unit)
        signals[p] = np.uint8(min(max(position, 0.0), levels - 1.0))


def bins_of_equal_counts(rows: NDArray[np.floating], bins: int) -> NDArray[np.unsignedinteger]:
    """Return the bin of each value among the values of its row; equal values share one."""
    bits, sign = float_bits(rows)
    result = np.empty(rows.shape, dtype=np.min_scalar_type(bins - 1))
    bin_by_rank(bits, sign, bins, result)
    return result


@njit(cache=True, parallel=True)
def bin_by_rank(
    bits: NDArray[np.unsignedinteger],
    sign: np.unsignedinteger,
    levels: int,
    signals: NDArray[np.uint8],
) -> None:
    """Assign equal-frequency bins per client; equal values share a bin.

    Parameters
    ----------
    bits : (k, d) uint32 or uint64
        The updates' IEEE-754 bits. As unsigned keys they are sorted without comparing floats.
    sign : uint32 or uint64
        The word in which only the sign bit is set, of the same type.
    """
    for i in prange(bits.shape[0]):
        _bin_row_by_rank(bits[i], sign, levels, signals[i])


@njit(cache=True)
def _bin_row_by_rank(
    bits: NDArray[np.unsignedinteger],
    sign: np.unsignedinteger,
    levels: int,
    signals: NDArray[np.uint8],
) -> None:
    # Exact order statistics without a full sort: a histogram of the leading 16 bits tells in which
    # coarse bin each wanted rank lies; only the values of those bins are collected and sorted.
    parameters = bits.shape[0]
    shift = 8 * bits.itemsize - _COARSE_BITS
    histogram = np.zeros(_COARSE_BINS, dtype=np.int32)
    for p in range(parameters):
        histogram[_sortable(bits[p], sign) >> shift] += 1

    edge_bin = np.empty(levels - 1, dtype=np.int64)
    edge_rank = np.empty(levels - 1, dtype=np.int64)
    slot = np.full(_COARSE_BINS, -1, dtype=np.int32)
    starts = np.zeros(levels, dtype=np.int64)
    slots, coarse, below = 0, 0, 0
    for a in range(levels - 1):
        rank = (a + 1) * parameters // levels
        while below + histogram[coarse] <= rank:
            below += histogram[coarse]
            coarse += 1
        edge_bin[a], edge_rank[a] = coarse, rank - below
        if slot[coarse] < 0:
            slot[coarse] = slots
            starts[slots + 1] = starts[slots] + histogram[coarse]
            slots += 1

    collected = np.empty(starts[slots], dtype=bits.dtype)
    filled = starts[:slots].copy()
    for p in range(parameters):
        key = _sortable(bits[p], sign)
        s = slot[key >> shift]
        if s >= 0:
            collected[filled[s]] = key
            filled[s] += 1
    edges = np.empty(levels - 1, dtype=bits.dtype)
    a = 0
    while a < levels - 1:
        s, first = slot[edge_bin[a]], a
        while a < levels - 1 and slot[edge_bin[a]] == s:
            a += 1
        _take_ranks(collected[starts[s] : starts[s + 1]], shift, edge_rank[first:a], edges[first:a])

    edges_below = np.empty(_COARSE_BINS, dtype=np.int32)
    a = 0
    for coarse in range(_COARSE_BINS):
        while a < levels - 1 and edge_bin[a] < coarse:
            a += 1
        edges_below[coarse] = a
    for p in range(parameters):
        key = _sortable(bits[p], sign)
        level = edges_below[key >> shift]
        while level < levels - 1 and edges[level] <= key:
            level += 1
        signals[p] = level


@njit(cache=True)
def _take_ranks(
    keys: NDArray[np.unsignedinteger],
    shift: int,
    ranks: NDArray[np.int64],
    found: NDArray[np.unsignedinteger],
) -> None:
    """Write the keys of the given ranks; all keys are equal above the lowest `shift` bits."""
    if ranks.shape[0] > _FEW_RANKS:
        if keys.min() < keys.max():  # a large tie (exact zeros) needs no sorting
            keys.sort()
        for n in range(ranks.shape[0]):
            found[n] = keys[ranks[n]]
        return
    # Byte by byte from above: the rank tells which keys still compete.
    counts = np.empty(256, dtype=np.int64)
    for n in range(ranks.shape[0]):
        rank, known = ranks[n], np.uint64(shift)
        prefix = np.uint64(keys[0]) >> known
        while known > 0:
            counts[:] = 0
            lower = known - np.uint64(8)
            for p in range(keys.shape[0]):
                key = np.uint64(keys[p])
                if key >> known == prefix:
                    counts[(key >> lower) & np.uint64(255)] += 1
            byte = 0
            while counts[byte] <= rank:
                rank -= counts[byte]
                byte += 1
            prefix = prefix << np.uint64(8) | np.uint64(byte)
            known = lower
        found[n] = prefix


@njit(cache=True)
def _sortable(bits: np.unsignedinteger, sign: np.unsignedinteger) -> np.unsignedinteger:
    """Map IEEE-754 bits to an unsigned key in the order of the floats; -0.0 becomes 0.0."""
    # Negative: the larger the magnitude, the smaller the key. For -0.0 this is the key of 0.0.
    key: np.unsignedinteger = (bits | sign) if bits & sign == 0 else sign - (bits ^ sign)
    return key
