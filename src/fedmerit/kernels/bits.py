"""Random words from a counter, population counts, and random halves as bit streams.

The word number n of a seed is the n-th output of SplitMix64 (Steele, Lea, Flood: "Fast splittable
pseudorandom number generators", OOPSLA 2014) started at that seed. It needs no state: any thread
can ask for any word.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
_TO_UNIT = 2.0**-53


@njit(cache=True)
def random_word(seed: np.uint64, index: int) -> np.uint64:
    """Return word `index` of the stream that `seed` stands for."""
    z = seed + (np.uint64(index) + _ONE) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def random_unit(seed: np.uint64, index: int) -> float:
    """Return word `index` as a number in [0, 1) with 53 random bits."""
    return float(random_word(seed, index) >> np.uint64(11)) * _TO_UNIT


@njit(cache=True)
def random_below(seed: np.uint64, index: int, bound: int) -> np.int64:
    """Return word `index` as an integer in [0, bound); the bias is below bound / 2^64."""
    return np.int64(random_word(seed, index) % np.uint64(bound))


@njit(cache=True)
def popcount(word: np.uint64) -> np.uint64:
    """Count the ones of a word. LLVM turns this pattern into the processor's instruction."""
    pairs = word - ((word >> _ONE) & np.uint64(0x5555555555555555))
    fours = (pairs & np.uint64(0x3333333333333333)) + (
        (pairs >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    eights = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (eights * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(cache=True)
def bit_at(words: NDArray[np.uint64], position: int | np.int64) -> np.int64:
    """Return bit `position` of a packed bit stream, 0 or 1."""
    return np.int64((words[position >> 6] >> np.uint64(position & 63)) & _ONE)


@njit(cache=True)
def fill_balanced_half(seed: np.uint64, length: int, words: NDArray[np.uint64]) -> int:
    """Write a uniformly random half of `length` positions into `words`, one bit each.

    Fair bits are drawn first; then ones (or zeros) at random places are turned until exactly
    ``length // 2`` are set. Given their number, fair ones are a uniform subset, and adding or
    removing uniform elements keeps it so. About sqrt(length) / 2 bits are turned.

    Returns
    -------
    int
        How many words of the stream were used; the caller goes on from there.
    """
    used: int = words.shape[0]
    ones = np.int64(0)
    for w in range(used):
        words[w] = random_word(seed, w)
    tail = length & 63
    if tail:
        words[used - 1] &= (_ONE << np.uint64(tail)) - _ONE
    for w in range(used):
        ones += np.int64(popcount(words[w]))
    target = length // 2
    while ones != target:
        position = random_below(seed, used, length)
        used += 1
        surplus = 1 if ones > target else 0
        if bit_at(words, position) == surplus:
            words[position >> 6] ^= _ONE << np.uint64(position & 63)
            ones += 1 - 2 * surplus
    return used
