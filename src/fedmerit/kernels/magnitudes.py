"""The largest magnitude of each row, by its bits: one look at every value finds all that is wrong.

Without their sign bit, floats are ordered like whole numbers, infinities above all that is finite
and what is not a number above those.
"""

from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.compiling import read_only
from fedmerit.kernels.threads import deal

_TOGETHER = 1 << 17  # numbers that a thread takes at least


def float_bits(
    values: NDArray[np.floating],
) -> tuple[NDArray[np.unsignedinteger], np.unsignedinteger]:
    """Return float32 or float64 values as words, and the word in which only the sign bit is set."""
    word = np.uint32 if values.dtype == np.float32 else np.uint64
    return values.view(word), word(1 << (8 * values.itemsize - 1))


def largest_bits(
    bits: NDArray[np.unsignedinteger],
    sign: np.unsignedinteger,
    largest: NDArray[np.unsignedinteger],
) -> None:
    """Write the largest of each row of `bits`, (k, d), with the bits of `sign` taken off."""
    look = partial(_look, read_only(bits), ~sign, largest)
    deal(look, len(bits), least=1 + _TOGETHER // max(bits.shape[1], 1))


@njit(cache=True, nogil=True)
def _look(
    bits: NDArray[np.unsignedinteger],
    magnitude: np.unsignedinteger,
    largest: NDArray[np.unsignedinteger],
    begin: int,
    end: int,
) -> None:
    for row in range(begin, end):
        line, most = bits[row], bits[row, 0] & magnitude
        for n in range(line.shape[0]):
            most = max(most, line[n] & magnitude)
        largest[row] = most
