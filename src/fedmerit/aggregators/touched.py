"""Averages of embedding rows over those who touched them.

Of a round's clients often one alone has seen an item. A plain mean divides what it learned by the
number of all clients.
"""

import numpy as np
from numpy.typing import NDArray

from fedmerit.types import FloatArray


def mean_over_touching(
    change: FloatArray,
    updates: FloatArray,
    weights: NDArray[np.float64],
    rows: NDArray[np.int64],
) -> FloatArray:
    """Divide each row of a weighted mean by the weight of the clients whose update moves it.

    Parameters
    ----------
    change : (d,)
        ``sum(weights * updates)`` with weights that sum to one.
    updates : (k, d)
    rows : (e,) int64
        The row of each of the first e parameters, in order; the rest of `change` stays.
    """
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    moved = np.logical_or.reduceat(updates[:, : len(rows)] != 0, starts, axis=1)
    share = weights @ moved
    factor = np.divide(1.0, share, out=np.ones_like(share), where=share > 0)
    result = change.copy()
    sizes = np.diff(starts, append=len(rows))
    result[: len(rows)] *= np.repeat(factor, sizes).astype(change.dtype)
    return result
