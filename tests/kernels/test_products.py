import numpy as np
import pytest

from fedmerit.kernels.products import (
    MANY,
    accumulate,
    products_between,
    products_of_few,
    squares_of,
    turned,
)
from fedmerit.kernels.spans import make_axes, take_off_all, take_off_own
from tests import naive

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("size", [1, 7, 8, 63, 64, 200])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_products_are_those_of_the_slow_twin(rng, size, kind):
    rows, others = rng.normal(size=(3, size)).astype(kind), rng.normal(size=(9, size)).astype(kind)
    expected = np.array(naive.inner_products(rows, others))
    assert products_between(rows, others) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    squares = np.diagonal(naive.inner_products(others, others))
    assert squares_of(others) == pytest.approx(squares, rel=1e-12)
    few = products_of_few(rows.astype(np.float64), others.astype(np.float64))
    assert few == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("size", [3, 600])
def test_products_of_many_rows_are_those_of_the_slow_twin(rng, size):
    rows, others = rng.normal(size=(MANY + 1, size)), rng.normal(size=(MANY, size))
    expected = rows @ others.T
    assert products_between(rows, others) == pytest.approx(expected, rel=1e-12, abs=1e-11)
    some = np.array(naive.inner_products(rows[:3], others[:3]))
    assert expected[:3, :3] == pytest.approx(some, rel=1e-12, abs=1e-12)


def test_products_are_added_to_what_is_there(rng):
    rows, others = rng.normal(size=(2, 20)), rng.normal(size=(3, 20))
    columns = turned(others)
    totals = np.ones((2, columns.shape[1]))
    accumulate(columns, rows, totals)
    assert totals[:, :3] == pytest.approx(1 + np.array(naive.inner_products(rows, others)))
    assert (totals[:, 3:] == 1).all()


@pytest.mark.parametrize("size", [15, 40, 150])
def test_what_is_spanned_is_taken_off_as_the_slow_twin_says(rng, size):
    public, rows = rng.normal(size=(7, size)), rng.normal(size=(6, size))
    axes = public.copy()
    make_axes(axes, 1e-6)
    left = rows.copy()
    take_off_all(left, axes)
    assert left == pytest.approx(np.array([naive.unspanned(row, public) for row in rows]), abs=1e-9)
    past = rng.normal(size=(6, 2, size))
    take_off_own(left, past.copy(), axes, 1e-5, 1e-6)
    for row, own, found in zip(rows, past, left, strict=True):
        assert found == pytest.approx(naive.unspanned(row, [*public, *own]), abs=1e-9)
