"""Inner products inside strata: all that amounts of private work are computed from.

Unlike the signs of `residual`, these keep sizes. Least squares is enough here, because a report
without evidence of work is not paid whatever its amount; and what least squares leaves of reports
need not be written down: its inner products follow from those of the reports.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

_TILE = 128


@njit(cache=True, parallel=True)
def stratum_products(
    updates: NDArray[np.floating],
    previous: NDArray[np.floating],
    public: NDArray[np.floating],
    starts: NDArray[np.int64],
    products: NDArray[np.float64],
) -> None:
    """Write the inner products of a constant, the public vectors, updates and previous reports.

    Parameters
    ----------
    updates, previous : (k, d) and (k or 0, d)
    public : (r, d)
    starts
        Stratum s holds the parameters ``starts[s]:starts[s + 1]``.
    products : (strata, rows, rows), output
        Rows are a constant, public vectors, updates and previous reports, in this order. Entries
        below the diagonal are written too.
    """
    rows = products.shape[1]
    known, clients, before = public.shape[0], updates.shape[0], previous.shape[0]
    for s in prange(starts.shape[0] - 1):
        total = products[s]
        total[:] = 0.0
        block = np.empty((_TILE, rows))
        for begin in range(starts[s], starts[s + 1], _TILE):
            size = min(_TILE, starts[s + 1] - begin)
            for n in range(size):
                block[n, 0] = 1.0
            for r in range(known):
                for n in range(size):
                    block[n, 1 + r] = public[r, begin + n]
            for i in range(clients):
                for n in range(size):
                    block[n, 1 + known + i] = updates[i, begin + n]
            for i in range(before):
                for n in range(size):
                    block[n, 1 + known + clients + i] = previous[i, begin + n]
            block[size:] = 0.0
            _add_products(block, total)
        for a in range(rows):
            for b in range(a):
                total[a, b] = total[b, a]


@njit(cache=True)
def _add_products(block: NDArray[np.float64], total: NDArray[np.float64]) -> None:
    """Add the upper triangle of ``block.T @ block``, two rows and four samples at a time."""
    rows = block.shape[1]
    for n in range(0, block.shape[0], 4):
        w, x, y, z = block[n], block[n + 1], block[n + 2], block[n + 3]
        for a in range(0, rows - 1, 2):
            p, q, s, t = w[a], x[a], y[a], z[a]
            e, f, g, h = w[a + 1], x[a + 1], y[a + 1], z[a + 1]
            line, below = total[a], total[a + 1]
            for b in range(a, rows):
                line[b] += (p * w[b] + q * x[b]) + (s * y[b] + t * z[b])
                below[b] += (e * w[b] + f * x[b]) + (g * y[b] + h * z[b])
        if rows % 2:
            a = rows - 1
            total[a, a] += (w[a] * w[a] + x[a] * x[a]) + (y[a] * y[a] + z[a] * z[a])
