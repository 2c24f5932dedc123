"""From floats to one-byte levels: stochastic rounding, equal-width bins, equal-frequency bins.

And the largest magnitude of each row, by its bits: one look at every value finds all that is wrong.
Without their sign bit, floats are ordered like whole numbers, infinities above all that is finite
and what is not a number above those.
"""

from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.bits import random_unit
from fedmerit.kernels.threads import deal, read_only

_TOGETHER = 1 << 17  # numbers that a thread takes at least, to look at
_COARSE_BITS = 16
_COARSE_BINS = 1 << _COARSE_BITS


def float_bits(
    values: NDArray[np.floating],
) -> tuple[NDArray[np.unsignedinteger], np.unsignedinteger]:
    """Return float32 or float64 values as words, and the word in which only the sign bit is set."""
    word = np.uint32 if values.dtype == np.float32 else np.uint64
    return values.view(word), word(1 << (8 * values.itemsize - 1))


def largest_bits(
    bits: NDArray[np.unsignedinteger],
    sign: np.unsignedinteger,
    largest: NDArray[np.unsignedinteger],
) -> None:
    """Write the largest of each row of `bits`, (k, d), with the bits of `sign` taken off."""
    look = partial(_look, read_only(bits), ~sign, largest)
    deal(look, len(bits), least=1 + _TOGETHER // max(bits.shape[1], 1))


@njit(cache=True, nogil=True)
def _look(
    bits: NDArray[np.unsignedinteger],
    magnitude: np.unsignedinteger,
    largest: NDArray[np.unsignedinteger],
    begin: int,
    end: int,
) -> None:
    for row in range(begin, end):
        line, most = bits[row], bits[row, 0] & magnitude
        for n in range(line.shape[0]):
            most = max(most, line[n] & magnitude)
        largest[row] = most


def round_stochastically(
    updates: NDArray[np.floating],
    levels: int,
    clip: float,
    seeds: NDArray[np.uint64],
    signals: NDArray[np.uint8],
) -> None:
    """Clip to [-clip, clip] and round to one of two neighbouring levels, without bias."""
    deal(partial(_round, read_only(updates), levels, clip, seeds, signals), len(updates))


@njit(cache=True, nogil=True)
def _round(
    updates: NDArray[np.floating],
    levels: int,
    clip: float,
    seeds: NDArray[np.uint64],
    signals: NDArray[np.uint8],
    begin: int,
    end: int,
) -> None:
    steps_per_unit = (levels - 1) / (2.0 * clip)
    for i in range(begin, end):
        row, seed, into = updates[i], seeds[i], signals[i]
        for p in range(row.shape[0]):
            position = (min(max(np.float64(row[p]), -clip), clip) + clip) * steps_per_unit
            lower = np.floor(position)
            up = 1.0 if random_unit(seed, p) < position - lower else 0.0
            into[p] = np.uint8(min(lower + up, levels - 1.0))


def add_from_table(
    signals: NDArray[np.uint8], cumulative: NDArray[np.float64], seeds: NDArray[np.uint64]
) -> None:
    """Add to every signal an independent draw from the distribution with these cumulatives."""
    deal(partial(_add_draws, signals, cumulative, seeds), len(signals))


@njit(cache=True, nogil=True)
def _add_draws(
    signals: NDArray[np.uint8],
    cumulative: NDArray[np.float64],
    seeds: NDArray[np.uint64],
    begin: int,
    end: int,
) -> None:
    for i in range(begin, end):
        for p in range(signals.shape[1]):
            unit = random_unit(seeds[i], p)
            low, high = 0, cumulative.shape[0]  # the draw is how many are at most the unit
            while low < high:
                middle = (low + high) // 2
                if cumulative[middle] <= unit:
                    low = middle + 1
                else:
                    high = middle
            signals[i, p] = np.uint8(signals[i, p] + low)


def bin_uniformly(
    updates: NDArray[np.floating], levels: int, clip: float, signals: NDArray[np.uint8]
) -> None:
    """Assign equal-width bins over [-clip, clip]; values outside fall into the end bins."""
    deal(partial(_bin_uniformly, read_only(updates), levels, clip, signals), len(updates))


@njit(cache=True, nogil=True)
def _bin_uniformly(
    updates: NDArray[np.floating],
    levels: int,
    clip: float,
    signals: NDArray[np.uint8],
    begin: int,
    end: int,
) -> None:
    bins_per_unit = levels / (2.0 * clip)
    for i in range(begin, end):
        row, into = updates[i], signals[i]
        for p in range(row.shape[0]):
            position = np.floor((np.float64(row[p]) + clip) * bins_per_unit)
            into[p] = np.uint8(min(max(position, 0.0), levels - 1.0))


def bins_of_equal_counts(rows: NDArray[np.floating], bins: int) -> NDArray[np.unsignedinteger]:
    """Return the bin of each value among the values of its row; equal values share one."""
    bits, sign = float_bits(rows)
    result = np.empty(rows.shape, dtype=np.min_scalar_type(bins - 1))
    bin_by_rank(bits, sign, bins, result)
    return result


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

    def assign(first: int, last: int) -> None:
        for row in range(first, last):
            _bin_row_by_rank(read_only(bits[row]), sign, levels, signals[row])

    deal(assign, len(bits))


@njit(cache=True, nogil=True)
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
    histogram = np.empty(_COARSE_BINS, dtype=np.int32)
    slot = np.empty(_COARSE_BINS, dtype=np.int32)
    for coarse in range(_COARSE_BINS):
        histogram[coarse], slot[coarse] = 0, -1
    for p in range(parameters):
        histogram[_sortable(bits[p], sign) >> shift] += 1

    edge_bin = np.empty(levels - 1, dtype=np.int64)
    edge_rank = np.empty(levels - 1, dtype=np.int64)
    starts = np.empty(levels, dtype=np.int64)
    starts[0] = 0
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
    filled = np.empty(slots, dtype=np.int64)
    for s in range(slots):
        filled[s] = starts[s]
    for p in range(parameters):
        key = _sortable(bits[p], sign)
        s = slot[key >> shift]
        if s >= 0:
            collected[filled[s]] = key
            filled[s] += 1
    edges = np.empty(levels - 1, dtype=bits.dtype)
    for s in range(slots):
        _sort(collected[starts[s] : starts[s + 1]], shift)
    for a in range(levels - 1):
        edges[a] = collected[starts[slot[edge_bin[a]]] + edge_rank[a]]
    beyond = edge_rank  # the next edge that is larger: a tie (exact zeros) can be many of them
    for a in range(levels - 2, -1, -1):
        tied = a + 2 < levels and edges[a + 1] == edges[a]
        beyond[a] = beyond[a + 1] if tied else a + 1

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
            level = beyond[level]
        signals[p] = level


@njit(cache=True, nogil=True)
def _sort(keys: NDArray[np.unsignedinteger], shift: int) -> None:
    """Sort keys by their lowest `shift` bits, a multiple of 16: byte by byte from below."""
    spare = np.empty_like(keys)
    places = np.empty(257, dtype=np.int64)
    for byte in range(shift // 8):
        lowest = np.uint64(8 * byte)
        source, target = (keys, spare) if byte % 2 == 0 else (spare, keys)
        for n in range(257):
            places[n] = 0
        for p in range(source.shape[0]):
            places[((np.uint64(source[p]) >> lowest) & np.uint64(255)) + np.uint64(1)] += 1
        for n in range(256):
            places[n + 1] += places[n]
        for p in range(source.shape[0]):
            key = source[p]
            digit = (np.uint64(key) >> lowest) & np.uint64(255)
            target[places[digit]] = key
            places[digit] += 1


@njit(cache=True, nogil=True)
def _sortable(bits: np.unsignedinteger, sign: np.unsignedinteger) -> np.unsignedinteger:
    """Map IEEE-754 bits to an unsigned key in the order of the floats; -0.0 becomes 0.0."""
    # Negative: the larger the magnitude, the smaller the key. For -0.0 this is the key of 0.0.
    key: np.unsignedinteger = (bits | sign) if bits & sign == 0 else sign - (bits ^ sign)
    return key
