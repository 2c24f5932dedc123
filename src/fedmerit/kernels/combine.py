"""Combining client updates coordinate by coordinate, and distances between updates.

Coordinates are worked on in blocks, all clients of a block at once: a sorting network compares row
with row, which the compiler turns into vector instructions, and no copy of the updates is made.
The work on a block is a function of its own, because the compiler does not vectorise the body of a
parallel loop.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

_BLOCK = 256
_LANES = 64


@njit(cache=True, parallel=True)
def weighted_sum(
    updates: NDArray[np.floating], weights: NDArray[np.float64], result: NDArray[np.floating]
) -> None:
    """Write sum_i weights[i] * updates[i] into `result`; sums run in float64, in client order."""
    parameters = updates.shape[1]
    for block in prange((parameters + _BLOCK - 1) // _BLOCK):
        begin = block * _BLOCK
        end = min(begin + _BLOCK, parameters)
        _sum_block(updates[:, begin:end], weights, result[begin:end])


@njit(cache=True)
def _sum_block(
    updates: NDArray[np.floating], weights: NDArray[np.float64], result: NDArray[np.floating]
) -> None:
    total = np.zeros(result.shape[0])
    for i in range(updates.shape[0]):
        row, weight = updates[i], weights[i]
        if weight != 0.0:
            for c in range(total.shape[0]):
                total[c] += weight * np.float64(row[c])
    for c in range(total.shape[0]):
        result[c] = total[c]


@njit(cache=True, parallel=True)
def trimmed_mean(
    updates: NDArray[np.floating],
    network: NDArray[np.int64],
    trim: int,
    result: NDArray[np.floating],
) -> None:
    """Average each coordinate without its `trim` smallest and `trim` largest values.

    Trimming all but the middle one or two values is the median.
    """
    parameters = updates.shape[1]
    for block in prange((parameters + _BLOCK - 1) // _BLOCK):
        begin = block * _BLOCK
        end = min(begin + _BLOCK, parameters)
        _trim_block(updates[:, begin:end], network, trim, result[begin:end])


@njit(cache=True)
def _trim_block(
    updates: NDArray[np.floating],
    network: NDArray[np.int64],
    trim: int,
    result: NDArray[np.floating],
) -> None:
    clients = updates.shape[0]
    rows = updates.copy()
    for step in range(network.shape[0]):
        low, high = rows[network[step, 0]], rows[network[step, 1]]
        for c in range(low.shape[0]):
            a, b = low[c], high[c]
            low[c], high[c] = min(a, b), max(a, b)
    total = np.zeros(result.shape[0])
    for i in range(trim, clients - trim):
        row = rows[i]
        for c in range(total.shape[0]):
            total[c] += np.float64(row[c])
    for c in range(total.shape[0]):
        result[c] = total[c] / (clients - 2 * trim)


@njit(cache=True, parallel=True)
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
    parameters = updates.shape[1]
    total = np.int64(0)
    for i in range(weights.shape[0]):
        total += weights[i]
    half = np.int32((total - tolerance + 1) // 2)
    more = np.int32((total + tolerance) // 2)
    for block in prange((parameters + _BLOCK - 1) // _BLOCK):
        begin = block * _BLOCK
        end = min(begin + _BLOCK, parameters)
        _median_block(updates[:, begin:end], weights, network, half, more, result[begin:end])


@njit(cache=True)
def _median_block(
    updates: NDArray[np.floating],
    weights: NDArray[np.int32],
    network: NDArray[np.int64],
    half: np.int32,
    more: np.int32,
    result: NDArray[np.floating],
) -> None:
    rows = updates.copy()
    mass = np.empty(rows.shape, dtype=np.int32)
    for i in range(rows.shape[0]):
        mass[i, :] = weights[i]
    for step in range(network.shape[0]):
        i, j = network[step, 0], network[step, 1]
        _swap_into_order(rows[i], rows[j], mass[i], mass[j])
    lower, upper, reached = rows[0].copy(), rows[0].copy(), mass[0].copy()
    for i in range(1, rows.shape[0]):
        row, row_mass = rows[i], mass[i]
        for c in range(lower.shape[0]):
            before = reached[c]
            lower[c] = row[c] if before < half else lower[c]
            upper[c] = row[c] if before <= more else upper[c]
            reached[c] = before + row_mass[c]
    for c in range(lower.shape[0]):
        result[c] = 0.5 * (np.float64(lower[c]) + np.float64(upper[c]))


@njit(cache=True)
def _swap_into_order(
    low: NDArray[np.floating],
    high: NDArray[np.floating],
    low_mass: NDArray[np.int32],
    high_mass: NDArray[np.int32],
) -> None:
    for c in range(low.shape[0]):
        a, b, a_mass, b_mass = low[c], high[c], low_mass[c], high_mass[c]
        swap = a > b
        low[c] = b if swap else a
        high[c] = a if swap else b
        low_mass[c] = b_mass if swap else a_mass
        high_mass[c] = a_mass if swap else b_mass


@njit(cache=True, parallel=True)
def squared_distances(
    updates: NDArray[np.floating], pairs: NDArray[np.int64], result: NDArray[np.float64]
) -> None:
    """Write the squared distance of each pair of rows, summed from differences in float64."""
    for pair in prange(pairs.shape[0]):
        result[pair] = _squared_distance(updates[pairs[pair, 0]], updates[pairs[pair, 1]])


@njit(cache=True, parallel=True)
def squared_distances_to(
    updates: NDArray[np.floating], point: NDArray[np.float64], result: NDArray[np.float64]
) -> None:
    """Write the squared distance of each row to `point`."""
    for i in prange(updates.shape[0]):
        result[i] = _squared_distance(updates[i], point)


@njit(cache=True)
def _squared_distance(left: NDArray[np.floating], right: NDArray[np.floating]) -> float:
    # Many running sums: with one alone each addition would wait for the one before it.
    sums = np.zeros(_LANES)
    whole = left.shape[0] // _LANES * _LANES
    for begin in range(0, whole, _LANES):
        a, b = left[begin : begin + _LANES], right[begin : begin + _LANES]
        for lane in range(_LANES):
            difference = np.float64(a[lane]) - np.float64(b[lane])
            sums[lane] += difference * difference
    total = 0.0
    for lane in range(_LANES):
        total += sums[lane]
    for p in range(whole, left.shape[0]):
        difference = np.float64(left[p]) - np.float64(right[p])
        total += difference * difference
    return total
