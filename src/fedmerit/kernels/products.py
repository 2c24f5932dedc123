"""Inner products in float64, in a fixed order that the compiler can still vectorise."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

_LANES = 64


@njit(cache=True, parallel=True)
def inner_products(
    rows: NDArray[np.floating], pairs: NDArray[np.int64], result: NDArray[np.float64]
) -> None:
    """Write the inner product of each pair of rows, summed in float64 in a fixed order."""
    for pair in prange(pairs.shape[0]):
        result[pair] = inner_product(rows[pairs[pair, 0]], rows[pairs[pair, 1]])


@njit(cache=True)
def inner_product(left: NDArray[np.floating], right: NDArray[np.floating]) -> float:
    """Return the inner product, with one running sum per lane."""
    sums = np.zeros(_LANES)
    whole = left.shape[0] // _LANES * _LANES
    for begin in range(0, whole, _LANES):
        a, b = left[begin : begin + _LANES], right[begin : begin + _LANES]
        for lane in range(_LANES):
            sums[lane] += np.float64(a[lane]) * np.float64(b[lane])
    total = 0.0
    for lane in range(_LANES):
        total += sums[lane]
    for p in range(whole, left.shape[0]):
        total += np.float64(left[p]) * np.float64(right[p])
    return total
