"""The private part of an update: what neither the public nor its own past explains.

Unlike the signs of `residual`, these parts keep their size: they measure amounts. Least squares is
enough here, because a report without evidence of work is not paid whatever its amount.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

_DEPENDENT = 1e-6
_LANES = 64


@njit(cache=True, parallel=True)
def private_parts(
    updates: NDArray[np.floating],
    public: NDArray[np.floating],
    previous: NDArray[np.floating],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    parts: NDArray[np.float32],
) -> None:
    """Write, stratum by stratum, what regression on the public vectors and on the client's own
    previous report leaves of each update.

    Parameters
    ----------
    updates, previous, parts : (k, d)
        A client without a previous report has zeros there. `parts` is the output.
    public : (r, d)
    order, starts
        Stratum s holds the parameters ``order[starts[s]:starts[s + 1]]``.
    """  # noqa: D205
    for s in prange(starts.shape[0] - 1):
        members = order[starts[s] : starts[s + 1]]
        basis = _orthonormal(public, members)
        for i in range(updates.shape[0]):
            rest = _remainder(updates[i], members, basis)
            own = _remainder(previous[i], members, basis)
            power, product, past = 0.0, 0.0, 0.0
            for n in range(members.shape[0]):
                power += own[n] * own[n]
                product += own[n] * rest[n]
                past += np.float64(previous[i, members[n]]) ** 2
            # A previous report that was itself public leaves only rounding to regress on.
            slope = product / power if power > 1e-10 * past else 0.0
            for n in range(members.shape[0]):
                parts[i, members[n]] = np.float32(rest[n] - slope * own[n])


@njit(cache=True)
def _orthonormal(public: NDArray[np.floating], members: NDArray[np.int64]) -> NDArray[np.float64]:
    """Orthonormal basis of a constant and the public vectors; dependent ones are left out."""
    size = members.shape[0]
    basis = np.empty((public.shape[0] + 1, size))
    kept = 0
    for r in range(public.shape[0] + 1):
        row = basis[kept]
        for n in range(size):
            row[n] = 1.0 if r == 0 else public[r - 1, members[n]]
        before = np.sqrt((row * row).sum())
        for _ in range(2):  # once more for what rounding left behind
            for b in range(kept):
                product = (row * basis[b]).sum()
                for n in range(size):
                    row[n] -= product * basis[b, n]
        after = np.sqrt((row * row).sum())
        if after > _DEPENDENT * before:
            for n in range(size):
                row[n] /= after
            kept += 1
    return basis[:kept]


@njit(cache=True)
def _remainder(
    values: NDArray[np.floating], members: NDArray[np.int64], basis: NDArray[np.float64]
) -> NDArray[np.float64]:
    size = members.shape[0]
    rest = np.empty(size)
    for n in range(size):
        rest[n] = values[members[n]]
    for b in range(basis.shape[0]):
        product = (rest * basis[b]).sum()
        for n in range(size):
            rest[n] -= product * basis[b, n]
    return rest


@njit(cache=True, parallel=True)
def inner_products(
    rows: NDArray[np.floating], pairs: NDArray[np.int64], result: NDArray[np.float64]
) -> None:
    """Write the inner product of each pair of rows, summed in float64 in a fixed order."""
    for pair in prange(pairs.shape[0]):
        result[pair] = _inner_product(rows[pairs[pair, 0]], rows[pairs[pair, 1]])


@njit(cache=True)
def _inner_product(left: NDArray[np.floating], right: NDArray[np.floating]) -> float:
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
