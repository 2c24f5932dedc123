"""Inner products in float64, in a fixed order that the compiler can still vectorise."""

from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.threads import deal, read_only

Matrix = NDArray[np.float64]
_LANES = 64
_VECTOR = 8  # rows are filled up to so many numbers: what is left over is not vectorised
MANY = 96  # rows, of which no two stay in the cache as a whole
# They are taken piece by piece, in so many stretches, a few of them together.
_STRETCHES, _PIECE, _FEW = 4, 512, 20
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


def turned(rows: NDArray[np.floating]) -> Matrix:
    """Return the rows, (k, n), as columns, (n, width), filled up with zeros."""
    columns = np.zeros((rows.shape[1], -(-len(rows) // _VECTOR) * _VECTOR))
    columns[:, : len(rows)] = rows.T
    return columns


def products_between(
    rows: NDArray[np.floating], others: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return the inner products of each of the rows, (k, d), with each of the others: (k, n)."""
    if min(len(rows), len(others)) >= MANY:
        return _between_many(rows, others)
    shape = (len(rows), len(others))
    result = np.empty(shape[0] * shape[1])
    pairs = np.column_stack(np.divmod(np.arange(len(result)), shape[1])).astype(np.int64)
    inner_products(rows, others, pairs, result)
    return result.reshape(shape)


def _between_many(rows: NDArray[np.floating], others: NDArray[np.floating]) -> NDArray[np.float64]:
    """Do the same piece by piece. Each stretch has sums of its own, which are added in order."""
    size = rows.shape[1]
    room = np.zeros((_STRETCHES, len(rows), turned(np.empty((len(others), 0))).shape[1]))

    def add(first: int, last: int) -> None:
        for stretch in range(first, last):
            begin, end = (size * n // _STRETCHES for n in (stretch, stretch + 1))
            for start in range(begin, end, _PIECE):
                part = slice(start, min(start + _PIECE, end))
                columns = turned(others[:, part])
                for top in range(0, len(rows), _FEW):
                    few = rows[top : top + _FEW, part].astype(np.float64, order="C")
                    accumulate(columns, few, room[stretch, top : top + _FEW])

    deal(add, _STRETCHES)
    total: NDArray[np.float64] = room.sum(axis=0)[:, : len(others)]
    return total


def squares_of(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the squared length of each of the rows, (k,)."""
    squares, own = np.empty(len(rows)), np.arange(len(rows), dtype=np.int64)
    inner_products(rows, rows, np.column_stack((own, own)), squares)
    return squares


def products_of_few(rows: Matrix, others: Matrix) -> Matrix:
    """Return the inner products of the rows, (k, d), and the others, (n, d): (k, n).

    They are few, and fit into the cache: a library would wake threads for these.
    """
    columns = turned(others)
    totals = np.zeros((len(rows), columns.shape[1]))
    accumulate(columns, rows, totals)
    return totals[:, : len(others)]


@njit(cache=True, nogil=True)
def _multiply(
    rows: NDArray[np.floating],
    others: NDArray[np.floating],
    pairs: NDArray[np.int64],
    result: NDArray[np.float64],
    begin: int,
    end: int,
) -> None:
    # Many running sums: with one alone each addition would wait for the one before it. Each is
    # stored after four additions.
    sums = np.empty(_LANES)
    size = rows.shape[1]
    whole, fours = size // _LANES * _LANES, size // (4 * _LANES) * (4 * _LANES)
    for pair in range(begin, end):
        left, right = rows[pairs[pair, 0]], others[pairs[pair, 1]]
        for lane in range(_LANES):
            sums[lane] = 0.0
        for first in range(0, fours, 4 * _LANES):
            a, b = left[first : first + 4 * _LANES], right[first : first + 4 * _LANES]
            for lane in range(_LANES):
                total = sums[lane] + np.float64(a[lane]) * np.float64(b[lane])
                total += np.float64(a[lane + _LANES]) * np.float64(b[lane + _LANES])
                total += np.float64(a[lane + 2 * _LANES]) * np.float64(b[lane + 2 * _LANES])
                total += np.float64(a[lane + 3 * _LANES]) * np.float64(b[lane + 3 * _LANES])
                sums[lane] = total
        for first in range(fours, whole, _LANES):
            a, b = left[first : first + _LANES], right[first : first + _LANES]
            for lane in range(_LANES):
                sums[lane] += np.float64(a[lane]) * np.float64(b[lane])
        total = 0.0
        for lane in range(_LANES):
            total += sums[lane]
        for p in range(whole, size):
            total += np.float64(left[p]) * np.float64(right[p])
        result[pair] = total


@njit(cache=True, nogil=True)
def room_for(size: int, width: int) -> Matrix:
    """Return rows of zeros, at least so wide that all of them can be worked on as vectors."""
    room = np.empty((size, (width + _VECTOR - 1) // _VECTOR * _VECTOR))
    for n in range(size):
        for r in range(room.shape[1]):
            room[n, r] = 0.0
    return room


@njit(cache=True, nogil=True)
def accumulate(left: Matrix, right: Matrix, totals: Matrix) -> None:
    """Add ``right @ left`` to the totals, eight terms at a time, always in the same order.

    `left` is (n, width), `right` (lanes, n), and `totals` (lanes, width): few enough to stay close.
    """
    size, width = left.shape
    lanes = right.shape[0]
    eights = size - size % 8
    for n in range(0, eights, 8):
        a, b, c, d = left[n], left[n + 1], left[n + 2], left[n + 3]
        e, f, g, h = left[n + 4], left[n + 5], left[n + 6], left[n + 7]
        for i in range(lanes):
            total, line = totals[i], right[i]
            p, q, s, t = line[n], line[n + 1], line[n + 2], line[n + 3]
            w, x, y, z = line[n + 4], line[n + 5], line[n + 6], line[n + 7]
            for r in range(width):
                one = (a[r] * p + b[r] * q) + (c[r] * s + d[r] * t)
                total[r] += one + ((e[r] * w + f[r] * x) + (g[r] * y + h[r] * z))
    for n in range(eights, size):
        a = left[n]
        for i in range(lanes):
            total, w = totals[i], right[i, n]
            for r in range(width):
                total[r] += a[r] * w
