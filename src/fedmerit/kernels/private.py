"""The private part of an update: what neither the public nor its own past explains.

Unlike the signs of `residual`, these parts keep their size: they measure amounts. Least squares is
enough here, because a report without evidence of work is not paid whatever its amount.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from fedmerit.kernels.products import inner_product

_DEPENDENT = 1e-6


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
            power, past = inner_product(own, own), 0.0
            for n in range(members.shape[0]):
                past += np.float64(previous[i, members[n]]) ** 2
            # A previous report that was itself public leaves only rounding to regress on.
            slope = inner_product(own, rest) / power if power > 1e-10 * past else 0.0
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
        before = np.sqrt(inner_product(row, row))
        for _ in range(2):  # once more for what rounding left behind
            for b in range(kept):
                row -= inner_product(row, basis[b]) * basis[b]
        after = np.sqrt(inner_product(row, row))
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
        rest -= inner_product(rest, basis[b]) * basis[b]
    return rest
