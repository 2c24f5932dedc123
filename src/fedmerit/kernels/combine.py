"""Combining client updates coordinate by coordinate, and distances between updates.

Coordinates are worked on in blocks, all clients of a block at once: a sorting network compares row
with row, which the compiler turns into vector instructions, and no copy of the updates is made.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

_BLOCK = 256
_LANES = 16


@njit(cache=True, parallel=True)
def weighted_sum(
    updates: NDArray[np.floating], weights: NDArray[np.float64], result: NDArray[np.floating]
) -> None:
    """Write sum_i weights[i] * updates[i] into `result`; sums run in float64, in client order."""
    clients, parameters = updates.shape
    for block in prange((parameters + _BLOCK - 1) // _BLOCK):
        begin = block * _BLOCK
        size = min(_BLOCK, parameters - begin)
        total = np.zeros(_BLOCK)
        for i in range(clients):
            if weights[i] != 0.0:
                for c in range(size):
                    total[c] += weights[i] * updates[i, begin + c]
        for c in range(size):
            result[begin + c] = total[c]


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
    clients, parameters = updates.shape
    for block in prange((parameters + _BLOCK - 1) // _BLOCK):
        begin = block * _BLOCK
        size = min(_BLOCK, parameters - begin)
        rows = np.zeros((clients, _BLOCK), dtype=updates.dtype)
        rows[:, :size] = updates[:, begin : begin + size]
        for step in range(network.shape[0]):
            low, high = rows[network[step, 0]], rows[network[step, 1]]
            for c in range(_BLOCK):
                smaller, larger = min(low[c], high[c]), max(low[c], high[c])
                low[c], high[c] = smaller, larger
        for c in range(size):
            total = 0.0
            for i in range(trim, clients - trim):
                total += rows[i, c]
            result[begin + c] = total / (clients - 2 * trim)


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
    clients, parameters = updates.shape
    total = np.int64(0)
    for i in range(clients):
        total += weights[i]
    half = np.int32((total - tolerance + 1) // 2)
    more = np.int32((total + tolerance) // 2)
    for block in prange((parameters + _BLOCK - 1) // _BLOCK):
        begin = block * _BLOCK
        size = min(_BLOCK, parameters - begin)
        rows = np.zeros((clients, _BLOCK), dtype=updates.dtype)
        rows[:, :size] = updates[:, begin : begin + size]
        mass = np.empty((clients, _BLOCK), dtype=np.int32)
        for i in range(clients):
            mass[i, :] = weights[i]
        for step in range(network.shape[0]):
            _swap_sorted(
                rows[network[step, 0]],
                rows[network[step, 1]],
                mass[network[step, 0]],
                mass[network[step, 1]],
            )
        lower, upper = rows[0], np.zeros(_BLOCK, dtype=updates.dtype)
        upper[:] = rows[0]
        reached = mass[0]
        for i in range(1, clients):
            for c in range(_BLOCK):
                before, value = reached[c], rows[i, c]
                lower[c] = value if before < half else lower[c]
                upper[c] = value if before <= more else upper[c]
                reached[c] = before + mass[i, c]
        for c in range(size):
            result[begin + c] = 0.5 * (np.float64(lower[c]) + np.float64(upper[c]))


@njit(cache=True)
def _swap_sorted(
    low: NDArray[np.floating],
    high: NDArray[np.floating],
    low_mass: NDArray[np.int32],
    high_mass: NDArray[np.int32],
) -> None:
    for c in range(_BLOCK):
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
    # Several running sums: one alone would make each addition wait for the one before it.
    sums = np.zeros(_LANES)
    whole = left.shape[0] // _LANES * _LANES
    for begin in range(0, whole, _LANES):
        for lane in range(_LANES):
            difference = np.float64(left[begin + lane]) - np.float64(right[begin + lane])
            sums[lane] += difference * difference
    total = 0.0
    for lane in range(_LANES):
        total += sums[lane]
    for p in range(whole, left.shape[0]):
        difference = np.float64(left[p]) - np.float64(right[p])
        total += difference * difference
    return total
