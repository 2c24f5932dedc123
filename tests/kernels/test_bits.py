import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit.kernels import bits
from fedmerit.kernels.layout import halve_strata
from tests import naive
from tests.strategies import seeds

pytestmark = pytest.mark.kernel


@given(seeds, st.integers(0, 10**6))
def test_words_are_splitmix64(seed, index):
    assert int(bits.random_word(np.uint64(seed), index)) == naive.random_word(seed, index)


def test_first_words_of_seed_zero_are_the_published_ones():
    # Reference output of SplitMix64 started at 0, as listed for Java's SplittableRandom.
    words = [int(bits.random_word(np.uint64(0), n)) for n in range(3)]
    assert words == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@given(st.integers(0, 2**64 - 1))
def test_popcount(word):
    assert int(bits.popcount(np.uint64(word))) == word.bit_count()


@given(seeds, st.integers(1, 300))
def test_half_equals_its_twin_and_is_balanced(seed, length):
    words = np.empty((length + 63) // 64, dtype=np.uint64)
    used = bits.fill_balanced_half(np.uint64(seed), length, words)
    stream = naive.Stream(seed)
    expected = naive.balanced_half(stream, length)
    assert [int(bits.bit_at(words, p)) for p in range(length)] == expected
    assert (sum(expected), used) == (length // 2, stream.used)

    cut = length // 3
    order, halves = np.empty(length, dtype=np.int64), np.empty(5, dtype=np.int64)
    halve_strata(words, np.array([0, cut, length]), order, halves)
    groups = [
        [p for p in range(*stratum) if expected[p] == bit]
        for stratum in ((0, cut), (cut, length))
        for bit in (1, 0)
    ]
    assert order.tolist() == [p for group in groups for p in group]
    assert np.diff(halves).tolist() == [len(group) for group in groups]


def test_every_half_of_four_is_equally_likely():
    draws = 3000
    words = np.empty(1, dtype=np.uint64)
    tally = dict.fromkeys((3, 5, 6, 9, 10, 12), 0)
    for seed in np.random.default_rng(5).integers(0, 2**64, draws, dtype=np.uint64):
        bits.fill_balanced_half(seed, 4, words)
        tally[int(words[0])] += 1
    expected = draws / 6
    chi_squared = sum((count - expected) ** 2 / expected for count in tally.values())
    assert chi_squared < 20.5  # 99.9 % quantile of chi-squared with 5 degrees of freedom
