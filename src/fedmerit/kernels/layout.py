"""Bring the parameters that count together, so that everything after reads memory in order."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from fedmerit.kernels.bits import bit_at


@njit(cache=True, parallel=True)
def take_columns(
    rows: NDArray[np.generic], columns: NDArray[np.int64], into: NDArray[np.generic]
) -> None:
    """Write ``rows[:, columns]`` into `into`."""
    for row in prange(rows.shape[0]):
        source, target = rows[row], into[row]
        for n in range(columns.shape[0]):
            target[n] = source[columns[n]]


@njit(cache=True)
def halve_strata(
    words: NDArray[np.uint64],
    starts: NDArray[np.int64],
    order: NDArray[np.int64],
    halves: NDArray[np.int64],
) -> None:
    """Order each stratum by the bits of `words`: ones first, then zeros, each in rising order.

    Stratum s lies at ``starts[s]:starts[s + 1]``. `halves`, (2 strata + 1), receives where each
    half starts in `order`.
    """
    strata = starts.shape[0] - 1
    for s in range(strata):
        ones = np.int64(0)
        for position in range(starts[s], starts[s + 1]):
            ones += bit_at(words, position)
        first, second = starts[s], starts[s] + ones
        halves[2 * s], halves[2 * s + 1] = first, second
        for position in range(starts[s], starts[s + 1]):
            if bit_at(words, position):
                order[first] = position
                first += 1
            else:
                order[second] = position
                second += 1
    halves[2 * strata] = starts[strata]
