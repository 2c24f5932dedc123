"""What lies in the span of some vectors and what does not, summed in a fixed order.

Library products would give other bits with another number of threads, and cost more than they save
on vectors as short as a stratum.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.threads import deal

Matrix = NDArray[np.float64]
QUARTERS = 4  # parts of a stratum by the first public vector
_LEAST_PART = 64  # parameters
_LANES = 16
_ROWS, _BLOCK = 5, 2048  # how many rows and parameters of them stay in the cache
_SPANNED = 1e-6  # what others leave of a public vector, if no more, is its rounding


def public_axes(
    public: NDArray[np.floating] | None, starts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return orthonormal rows, (n, d), that span a constant and the `public` vectors, (r, d).

    They do so in each stratum: s holds the parameters ``starts[s]:starts[s + 1]``. Public vectors
    may be almost one: their coefficients would be large and cancel, and what rounding leaves of
    that would be the same for everybody.

    What is computed from a public vector parameter by parameter is public, too: its signs, its
    roots, its largest tenth. Strata by the first vector make every such function nearly linear
    where they are many. A small model has few, so the rows also span the signs of that vector, and
    a constant in each quarter of a stratum by it. With fewer than four strata there are no
    parameters to spare for that.
    """
    known = 1 if public is None else 1 + len(public)
    shapes = 0 if public is None or len(starts) <= QUARTERS else QUARTERS
    axes = np.zeros((known + shapes, int(starts[-1])))

    def orthonormal(first: int, last: int) -> None:
        for begin, end in zip(starts[first:last], starts[first + 1 : last + 1], strict=True):
            own = np.zeros((len(axes), end - begin))
            own[0] = 1.0
            if public is not None:
                own[1:known] = public[:, begin:end]
            if shapes:
                _write_shapes(own[1], own[known:])
            make_axes(own, _SPANNED)
            axes[:, begin:end] = own

    deal(orthonormal, len(starts) - 1)
    return axes


def _write_shapes(vector: NDArray[np.float64], into: Matrix) -> None:
    """Write the signs of a vector, and where it is in its upper three, two and one quarters.

    A part must have enough parameters to tell its mean: of few there are fewer parts.
    """
    into[0] = np.sign(vector)
    parts = min(QUARTERS, len(vector) // _LEAST_PART)
    ordered = np.sort(vector)
    for part in range(1, parts):
        into[part] = vector >= ordered[len(vector) * part // parts]


@njit(cache=True, nogil=True)
def _add_products(
    left: NDArray[np.float64], right: NDArray[np.float64], sums: NDArray[np.float64]
) -> None:
    """Add the products of two vectors to the running sums, each always to the same."""
    # Many sums, and eight products for each: with few each addition would wait for the one before.
    size = left.shape[0]
    whole = size // (8 * _LANES) * (8 * _LANES)
    for first in range(0, whole, 8 * _LANES):
        a, b = left[first : first + 8 * _LANES], right[first : first + 8 * _LANES]
        for lane in range(_LANES):
            w = a[lane] * b[lane] + a[lane + _LANES] * b[lane + _LANES]
            x = a[lane + 2 * _LANES] * b[lane + 2 * _LANES]
            x += a[lane + 3 * _LANES] * b[lane + 3 * _LANES]
            y = a[lane + 4 * _LANES] * b[lane + 4 * _LANES]
            y += a[lane + 5 * _LANES] * b[lane + 5 * _LANES]
            z = a[lane + 6 * _LANES] * b[lane + 6 * _LANES]
            z += a[lane + 7 * _LANES] * b[lane + 7 * _LANES]
            sums[lane] += (w + x) + (y + z)
    for first in range(whole, size - size % _LANES, _LANES):
        a, b = left[first : first + _LANES], right[first : first + _LANES]
        for lane in range(_LANES):
            sums[lane] += a[lane] * b[lane]
    for n in range(size - size % _LANES, size):
        sums[0] += left[n] * right[n]


@njit(cache=True, nogil=True)
def _total(sums: NDArray[np.float64]) -> float:
    """Return the total of the running sums, and set them to zero."""
    half = _LANES // 2
    while half > 0:
        for lane in range(half):
            sums[lane] += sums[lane + half]
        half //= 2
    total: float = sums[0]
    for lane in range(_LANES):
        sums[lane] = 0.0
    return total


@njit(cache=True, nogil=True)
def _length(vector: NDArray[np.float64], sums: NDArray[np.float64]) -> float:
    """Return the length of a vector; `sums`, zeros, are room to work in, as below."""
    _add_products(vector, vector, sums)
    length: float = np.sqrt(_total(sums))
    return length


@njit(cache=True, nogil=True)
def _subtract(
    vector: NDArray[np.float64], along: NDArray[np.float64], axes: Matrix, first: int
) -> None:
    """Take off a stretch of a vector, which begins at `first`, its parts `along` the axes."""
    size, count = vector.shape[0], along.shape[0]
    last = first + size
    # Six axes at a time: most of the work is loading and storing what is left.
    sixes = count - count % 6
    for r in range(0, sixes, 6):
        a, b, c = along[r], along[r + 1], along[r + 2]
        d, e, f = along[r + 3], along[r + 4], along[r + 5]
        u, v, w = axes[r, first:last], axes[r + 1, first:last], axes[r + 2, first:last]
        x, y, z = axes[r + 3, first:last], axes[r + 4, first:last], axes[r + 5, first:last]
        for n in range(size):
            some = (a * u[n] + b * v[n]) + c * w[n]
            vector[n] -= some + ((d * x[n] + e * y[n]) + f * z[n])
    for r in range(sixes, count):
        a, x = along[r], axes[r, first:last]
        for n in range(size):
            vector[n] -= a * x[n]


@njit(cache=True, nogil=True)
def _take_off(
    vector: NDArray[np.float64], axes: Matrix, count: int, sums: NDArray[np.float64]
) -> None:
    """Take off what lies in the span of the first `count` orthonormal `axes`."""
    along = np.empty(count)
    for r in range(count):
        _add_products(vector, axes[r], sums)
        along[r] = _total(sums)
    _subtract(vector, along, axes, 0)


@njit(cache=True, nogil=True)
def make_axes(vectors: Matrix, dependent: float) -> None:
    """Replace the rows by orthonormal ones with the same span.

    By Gram and Schmidt, twice for what the first pass leaves by rounding. A row becomes zero where
    those before it leave at most the share `dependent` of it.
    """
    sums = np.zeros(_LANES)
    for place in range(vectors.shape[0]):
        own = vectors[place]
        before = _length(own, sums)
        _take_off(own, vectors, place, sums)
        _take_off(own, vectors, place, sums)
        left = _length(own, sums)
        independent = left > dependent * before
        scale = 1.0 / left if independent else 0.0
        for n in range(own.shape[0]):
            own[n] = own[n] * scale


@njit(cache=True, nogil=True)
def take_off_all(rows: Matrix, axes: Matrix) -> None:
    """Take off each row what lies in the span of the orthonormal `axes`.

    A few rows and a block of parameters at a time, which stay in the cache.
    """
    count, size = axes.shape
    sums, along = np.zeros((_ROWS, count, _LANES)), np.empty((_ROWS, count))
    for top in range(0, rows.shape[0], _ROWS):
        some = min(_ROWS, rows.shape[0] - top)
        for first in range(0, size, _BLOCK):
            last = min(first + _BLOCK, size)
            for i in range(some):
                row = rows[top + i, first:last]
                for r in range(count):
                    _add_products(row, axes[r, first:last], sums[i, r])
        for i in range(some):
            for r in range(count):
                along[i, r] = _total(sums[i, r])
        for first in range(0, size, _BLOCK):
            last = min(first + _BLOCK, size)
            for i in range(some):
                _subtract(rows[top + i, first:last], along[i], axes, first)


@njit(cache=True, nogil=True)
def take_off_own(
    rows: Matrix, past: NDArray[np.float64], axes: Matrix, known: float, dependent: float
) -> None:
    """Take off each row what lies in the span of its own past, (k, p, n), beyond the `axes`.

    A past of which the axes leave at most the share `known` says nothing of its own; what the past
    holds is overwritten.
    """
    sums, before = np.zeros(_LANES), np.empty(past.shape[1])
    for i in range(rows.shape[0]):
        own = past[i]
        for r in range(own.shape[0]):
            before[r] = _length(own[r], sums)
        take_off_all(own, axes)
        for r in range(own.shape[0]):
            if _length(own[r], sums) <= known * before[r]:
                for n in range(own.shape[1]):
                    own[r, n] = 0.0
        make_axes(own, dependent)
        _take_off(rows[i], own, own.shape[0], sums)
