"""Inner products in float64, in a fixed order that the compiler can still vectorise."""

from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.compiling import read_only
from fedmerit.kernels.threads import deal

_LANES = 64
_TOGETHER = 1 << 15  # products that a thread takes at least


def inner_products(
    rows: NDArray[np.floating],
    others: NDArray[np.floating],
    pairs: NDArray[np.int64],
    result: NDArray[np.float64],
) -> None:
    """Write the inner product of each pair, one of the `rows` and one of the `others`.

    They are summed in float64, in a fixed order.
    """
    multiply = partial(_multiply, read_only(rows), read_only(others), pairs, result)
    deal(multiply, len(pairs), least=1 + _TOGETHER // max(rows.shape[1], 1))


def products_between(
    rows: NDArray[np.floating], others: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return the inner products of each of the rows, (k, d), with each of the others: (k, n)."""
    shape = (len(rows), len(others))
    result = np.empty(shape[0] * shape[1])
    pairs = np.column_stack(np.divmod(np.arange(len(result)), shape[1])).astype(np.int64)
    inner_products(rows, others, pairs, result)
    return result.reshape(shape)


@njit(cache=True, nogil=True)
def _multiply(
    rows: NDArray[np.floating],
    others: NDArray[np.floating],
    pairs: NDArray[np.int64],
    result: NDArray[np.float64],
    begin: int,
    end: int,
) -> None:
    sums = np.empty(_LANES)  # with one running sum each addition would wait for the one before
    size = rows.shape[1]
    whole = size // _LANES * _LANES
    for pair in range(begin, end):
        left, right = rows[pairs[pair, 0]], others[pairs[pair, 1]]
        for lane in range(_LANES):
            sums[lane] = 0.0
        for first in range(0, whole, _LANES):
            a, b = left[first : first + _LANES], right[first : first + _LANES]
            for lane in range(_LANES):
                sums[lane] += np.float64(a[lane]) * np.float64(b[lane])
        total = 0.0
        for lane in range(_LANES):
            total += sums[lane]
        for p in range(whole, size):
            total += np.float64(left[p]) * np.float64(right[p])
        result[pair] = total
