import numpy as np
import pytest

from fedmerit.errors import UpdatesError
from fedmerit.kernels.levels import largest_bits
from fedmerit.validation import check_finite, check_matrix

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize(("kind", "word"), [(np.float32, np.uint32), (np.float64, np.uint64)])
def test_largest_bits_are_those_of_the_largest_magnitude(kind, word, rng):
    values = rng.normal(size=(4, 77)).astype(kind)
    values[1, 5], values[2, 70] = -1000.0, 0.0
    found = np.empty(4, dtype=word)
    largest_bits(values.view(word), word(1 << (8 * values.itemsize - 1)), found)
    np.testing.assert_array_equal(found.view(kind), np.abs(values).max(axis=1))


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_is_not_finite_is_refused_with_its_place(bad, kind):
    values = np.zeros((3, 40), dtype=kind)
    values[1, 39] = bad
    with pytest.raises(
        UpdatesError, match=r"updates must be finite, got .* client 6, parameter 39"
    ):
        check_finite(values, name="updates", first=5)


def test_values_whose_powers_overflow_are_refused():
    values = np.zeros((2, 3))
    values[0, 1] = -1e60
    check_finite(values, name="updates")
    values[1, 2] = np.nextafter(1e60, 2e60)
    with pytest.raises(UpdatesError, match=r"at most 1e\+60 in size, got 1.0+1e\+60 at client 1"):
        check_matrix(values)
    check_matrix(np.full((1, 2), np.finfo(np.float32).max, dtype=np.float32))
