"""Bring the parameters that count together, so that everything after reads memory in order."""

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.bits import bit_at
from fedmerit.kernels.threads import deal, read_only

_TOGETHER = 1 << 14  # numbers that a thread takes at least


def take_columns(
    rows: Sequence[NDArray[np.generic]] | NDArray[np.generic],
    columns: NDArray[np.int64],
    into: NDArray[np.generic],
) -> None:
    """Write the values of each row at `columns` into the same row of `into`."""
    word = f"u{into.itemsize}"  # whatever the bits stand for
    positions = read_only(columns.view(np.uint64))  # of what cannot be negative no sign is checked
    whole = [read_only(rows[row].view(word)) for row in range(len(into))]

    def take(first: int, last: int) -> None:
        for row in range(first, last):
            _take(whole[row], positions, into[row].view(word))

    deal(take, len(into), least=1 + _TOGETHER // max(len(columns), 1))


@njit(cache=True, nogil=True)
def _take(
    row: NDArray[np.unsignedinteger],
    columns: NDArray[np.uint64],
    into: NDArray[np.unsignedinteger],
) -> None:
    for n in range(columns.shape[0]):
        into[n] = row[columns[n]]


@njit(cache=True, nogil=True)
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
