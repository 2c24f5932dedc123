"""Combining client updates coordinate by coordinate, and distances between updates.

Coordinates are worked on in blocks, all clients of a block at once: a sorting network compares row
with row, which the compiler turns into vector instructions, and no copy of the updates is made.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.threads import deal, read_only

_BLOCK = 256
_LANES = 64
_TOGETHER = 1 << 15  # numbers that a thread takes at least


def weighted_sum(
    updates: NDArray[np.floating], weights: NDArray[np.float64], result: NDArray[np.floating]
) -> None:
    """Write sum_i weights[i] * updates[i] into `result`; sums run in float64, in client order."""
    _deal_blocks(partial(_sum, read_only(updates), read_only(weights), result), updates)


@njit(cache=True, nogil=True)
def _sum(
    updates: NDArray[np.floating],
    weights: NDArray[np.float64],
    result: NDArray[np.floating],
    begin: int,
    end: int,
) -> None:
    total = np.empty(_BLOCK)
    for first in range(begin, end, _BLOCK):
        size = min(_BLOCK, end - first)
        for c in range(size):
            total[c] = 0.0
        for i in range(updates.shape[0]):
            row, weight = updates[i, first : first + size], weights[i]
            if weight != 0.0:
                for c in range(size):
                    total[c] += weight * np.float64(row[c])
        for c in range(size):
            result[first + c] = total[c]


def trimmed_mean(
    updates: NDArray[np.floating],
    network: NDArray[np.int64],
    trim: int,
    result: NDArray[np.floating],
) -> None:
    """Average each coordinate without its `trim` smallest and `trim` largest values.

    Trimming all but the middle one or two values is the median.
    """
    _deal_blocks(partial(_trim, read_only(updates), read_only(network), trim, result), updates)


@njit(cache=True, nogil=True, error_model="numpy")
def _trim(
    updates: NDArray[np.floating],
    network: NDArray[np.int64],
    trim: int,
    result: NDArray[np.floating],
    begin: int,
    end: int,
) -> None:
    clients = updates.shape[0]
    rows = np.empty((clients, _BLOCK), dtype=updates.dtype)
    total = np.empty(_BLOCK)
    for first in range(begin, end, _BLOCK):
        size = min(_BLOCK, end - first)
        _copy_block(updates, first, size, rows)
        for step in range(network.shape[0]):
            low, high = rows[network[step, 0]], rows[network[step, 1]]
            for c in range(size):
                a, b = low[c], high[c]
                low[c], high[c] = min(a, b), max(a, b)
        for c in range(size):
            total[c] = 0.0
        for i in range(trim, clients - trim):
            row = rows[i]
            for c in range(size):
                total[c] += np.float64(row[c])
        for c in range(size):
            result[first + c] = total[c] / (clients - 2 * trim)


def weighted_median(
    updates: NDArray[np.floating],
    weights: NDArray[np.int32],
    network: NDArray[np.int64],
    tolerance: int,
    result: NDArray[np.floating],
) -> None:
    """Take the weighted median of each coordinate; weights are positive whole numbers.

    It is the middle between the first value that collects half of the weight and the first that
    collects more than half, each to within `tolerance` of weight. The weights add up to less than
    2^31.
    """
    total = int(weights.sum(dtype=np.int64))
    half = np.int32((total - tolerance + 1) // 2)
    more = np.int32((total + tolerance) // 2)
    median = partial(_median, read_only(updates), weights, read_only(network), half, more, result)
    _deal_blocks(median, updates)


@njit(cache=True, nogil=True)
def _median(
    updates: NDArray[np.floating],
    weights: NDArray[np.int32],
    network: NDArray[np.int64],
    half: np.int32,
    more: np.int32,
    result: NDArray[np.floating],
    begin: int,
    end: int,
) -> None:
    clients = updates.shape[0]
    rows = np.empty((clients, _BLOCK), dtype=updates.dtype)
    mass = np.empty((clients, _BLOCK), dtype=np.int32)
    lower, upper = np.empty(_BLOCK, updates.dtype), np.empty(_BLOCK, updates.dtype)
    reached = np.empty(_BLOCK, dtype=np.int32)
    for first in range(begin, end, _BLOCK):
        size = min(_BLOCK, end - first)
        _copy_block(updates, first, size, rows)
        for i in range(clients):
            row_mass, weight = mass[i], weights[i]
            for c in range(size):
                row_mass[c] = weight
        for step in range(network.shape[0]):
            i, j = network[step, 0], network[step, 1]
            _swap_into_order(size, rows[i], rows[j], mass[i], mass[j])
        for c in range(size):
            lower[c] = upper[c] = rows[0, c]
            reached[c] = mass[0, c]
        for i in range(1, clients):
            row, row_mass = rows[i], mass[i]
            for c in range(size):
                before = reached[c]
                lower[c] = row[c] if before < half else lower[c]
                upper[c] = row[c] if before <= more else upper[c]
                reached[c] = before + row_mass[c]
        for c in range(size):
            result[first + c] = 0.5 * (np.float64(lower[c]) + np.float64(upper[c]))


@njit(cache=True, nogil=True)
def _swap_into_order(
    size: int,
    low: NDArray[np.floating],
    high: NDArray[np.floating],
    low_mass: NDArray[np.int32],
    high_mass: NDArray[np.int32],
) -> None:
    for c in range(size):
        a, b, a_mass, b_mass = low[c], high[c], low_mass[c], high_mass[c]
        swap = a > b
        low[c] = b if swap else a
        high[c] = a if swap else b
        low_mass[c] = b_mass if swap else a_mass
        high_mass[c] = a_mass if swap else b_mass


@njit(cache=True, nogil=True)
def _copy_block(
    updates: NDArray[np.floating], first: int, size: int, rows: NDArray[np.floating]
) -> None:
    for i in range(updates.shape[0]):
        source, target = updates[i, first : first + size], rows[i]
        for c in range(size):
            target[c] = source[c]


def _deal_blocks(work: Callable[[int, int], object], updates: NDArray[np.floating]) -> None:
    """Call `work` for stretches of coordinates that begin where a block does."""
    clients, parameters = updates.shape

    def stretch(first: int, last: int) -> None:
        work(first * _BLOCK, min(last * _BLOCK, parameters))

    deal(stretch, -(-parameters // _BLOCK), least=1 + _TOGETHER // (clients * _BLOCK))


def squared_distances(
    updates: NDArray[np.floating], pairs: NDArray[np.int64], result: NDArray[np.float64]
) -> None:
    """Write the squared distance of each pair of rows, summed from differences in float64."""
    _deal_distances(updates, updates, pairs, result)


def squared_distances_to(
    updates: NDArray[np.floating], point: NDArray[np.float64], result: NDArray[np.float64]
) -> None:
    """Write the squared distance of each row to `point`."""
    rows = np.arange(len(updates))
    _deal_distances(updates, point[None], np.column_stack((rows, np.zeros_like(rows))), result)


def _deal_distances(
    left: NDArray[np.floating],
    right: NDArray[np.floating],
    pairs: NDArray[np.int64],
    result: NDArray[np.float64],
) -> None:
    measure = partial(_measure, read_only(left), read_only(right), read_only(pairs), result)
    deal(measure, len(pairs), least=1 + _TOGETHER // max(left.shape[1], 1))


@njit(cache=True, nogil=True)
def _measure(
    left: NDArray[np.floating],
    right: NDArray[np.floating],
    pairs: NDArray[np.int64],
    result: NDArray[np.float64],
    begin: int,
    end: int,
) -> None:
    # Many running sums: with one alone each addition would wait for the one before it.
    sums = np.empty(_LANES)
    size = left.shape[1]
    whole = size // _LANES * _LANES
    for pair in range(begin, end):
        one, other = left[pairs[pair, 0]], right[pairs[pair, 1]]
        for lane in range(_LANES):
            sums[lane] = 0.0
        for first in range(0, whole, _LANES):
            a, b = one[first : first + _LANES], other[first : first + _LANES]
            for lane in range(_LANES):
                difference = np.float64(a[lane]) - np.float64(b[lane])
                sums[lane] += difference * difference
        total = 0.0
        for lane in range(_LANES):
            total += sums[lane]
        for p in range(whole, size):
            difference = np.float64(one[p]) - np.float64(other[p])
            total += difference * difference
        result[pair] = total
