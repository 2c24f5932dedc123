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
_CELLS = 4  # of a stratum, by the first public vector
_LEAST_CELL = 64  # parameters
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
    a constant in each quarter of a stratum by it.
    """
    known = 1 if public is None else 1 + len(public)
    axes = np.zeros((known if public is None else known + QUARTERS, int(starts[-1])))

    def orthonormal(first: int, last: int) -> None:
        for begin, end in zip(starts[first:last], starts[first + 1 : last + 1], strict=True):
            own = np.zeros((len(axes), end - begin))
            own[0] = 1.0
            if public is not None:
                own[1:known] = public[:, begin:end]
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
def inner_product(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Return the inner product of two vectors."""
    # Many running sums: with one alone each addition would wait for the one before it.
    sums = np.empty(_LANES)
    for lane in range(_LANES):
        sums[lane] = 0.0
    whole = left.shape[0] // (4 * _LANES) * (4 * _LANES)
    for first in range(0, whole, 4 * _LANES):
        a, b = left[first : first + 4 * _LANES], right[first : first + 4 * _LANES]
        for lane in range(_LANES):
            w, x = a[lane] * b[lane], a[lane + _LANES] * b[lane + _LANES]
            y = a[lane + 2 * _LANES] * b[lane + 2 * _LANES]
            z = a[lane + 3 * _LANES] * b[lane + 3 * _LANES]
            sums[lane] += (w + x) + (y + z)
    total = 0.0
    for lane in range(_LANES):
        total += sums[lane]
    for n in range(whole, left.shape[0]):
        total += left[n] * right[n]
    return total


@njit(cache=True, nogil=True)
def take_off(vector: NDArray[np.float64], axes: Matrix, count: int) -> None:
    """Take off what lies in the span of the first `count` orthonormal `axes`."""
    along = np.empty(count)
    for r in range(count):
        along[r] = inner_product(vector, axes[r])
    # Three axes at a time: most of the work is loading and storing what is left.
    threes = count - count % 3
    for r in range(0, threes, 3):
        a, b, c = along[r], along[r + 1], along[r + 2]
        x, y, z = axes[r], axes[r + 1], axes[r + 2]
        for n in range(vector.shape[0]):
            vector[n] -= a * x[n] + b * y[n] + c * z[n]
    for r in range(threes, count):
        a, x = along[r], axes[r]
        for n in range(vector.shape[0]):
            vector[n] -= a * x[n]


@njit(cache=True, nogil=True)
def make_axes(vectors: Matrix, dependent: float) -> None:
    """Replace the rows by orthonormal ones with the same span.

    By Gram and Schmidt, twice for what the first pass leaves by rounding. A row becomes zero where
    those before it leave at most the share `dependent` of it.
    """
    for place in range(vectors.shape[0]):
        own = vectors[place]
        before = np.sqrt(inner_product(own, own))
        take_off(own, vectors, place)
        take_off(own, vectors, place)
        left = np.sqrt(inner_product(own, own))
        independent = left > dependent * before
        for n in range(own.shape[0]):
            own[n] = own[n] / left if independent else 0.0


@njit(cache=True, nogil=True)
def take_off_all(rows: Matrix, axes: Matrix) -> None:
    """Take off each row what lies in the span of the orthonormal `axes`."""
    for i in range(rows.shape[0]):
        take_off(rows[i], axes, axes.shape[0])


@njit(cache=True, nogil=True)
def take_off_own(
    rows: Matrix, past: NDArray[np.float64], axes: Matrix, known: float, dependent: float
) -> None:
    """Take off each row what lies in the span of its own past, (k, p, n), beyond the `axes`.

    A past of which the axes leave at most the share `known` says nothing of its own; what the past
    holds is overwritten.
    """
    for i in range(rows.shape[0]):
        own = past[i]
        for r in range(own.shape[0]):
            before = np.sqrt(inner_product(own[r], own[r]))
            take_off(own[r], axes, axes.shape[0])
            if np.sqrt(inner_product(own[r], own[r])) <= known * before:
                for n in range(own.shape[1]):
                    own[r, n] = 0.0
        make_axes(own, dependent)
        take_off(rows[i], own, own.shape[0])
