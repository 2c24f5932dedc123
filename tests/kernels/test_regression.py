import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit.kernels.private import private_parts
from fedmerit.kernels.residual import NEGATIVE, POSITIVE, TIE, least_absolute, residual_signs
from fedmerit.scorers.merit import gram

pytestmark = pytest.mark.kernel


def test_least_absolute_ignores_gross_errors(rng):
    g, w = rng.normal(size=(2, 200))
    target = 1.5 * g - 0.25 * w + 0.125
    target[::5] += rng.normal(scale=50, size=40)
    coefficients = least_absolute(np.stack([g, w, np.ones(200)]), target)
    assert coefficients == pytest.approx([1.5, -0.25, 0.125], abs=1e-6)


@given(st.integers(0, 2**32))
def test_least_absolute_is_nearly_optimal(seed):
    """Compared with every line through two points, one of which is optimal."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 15))
    slope, constant = least_absolute(np.stack([x, np.ones(15)]), y)
    best = min(
        np.abs(y - y[i] - (y[j] - y[i]) / (x[j] - x[i]) * (x - x[i])).sum()
        for i in range(15)
        for j in range(i)
    )
    assert np.abs(y - slope * x - constant).sum() <= best * 1.05


def test_dependent_columns_do_no_harm(rng):
    g = rng.normal(size=100)
    columns = np.stack([g, 2 * g, np.zeros(100), np.ones(100)])
    coefficients = least_absolute(columns, 3 * g)
    assert coefficients @ columns == pytest.approx(3 * g, abs=1e-6)


def test_signs_and_deviations_of_residuals(rng):
    d = 60
    public = rng.normal(size=(1, d))
    updates = np.stack([2 * public[0], 2 * public[0], np.zeros(d)])
    updates[1, :5] += 1.0
    updates[1, 5:10] -= 1.0
    signals = np.empty((3, d), dtype=np.uint8)
    deviations = np.empty((3, 2, 2))
    order, starts = np.arange(d), np.array([0, d, d])
    residual_signs(updates, public, order, starts, 1e-6, signals, deviations)
    assert (signals[[0, 2]] == TIE).all()
    assert signals[1].tolist() == [POSITIVE] * 5 + [NEGATIVE] * 5 + [TIE] * 50
    assert deviations[1, 0, 0] == pytest.approx(10, rel=1e-3)
    assert deviations[0, 0, 1] == pytest.approx(
        np.abs(updates[0] - np.median(updates[0])).sum(), rel=1e-9
    )
    assert (deviations[:, 1] == 0).all()


def test_private_parts_are_least_squares_remainders(rng):
    k, d = 3, 120
    updates, previous = rng.normal(size=(2, k, d))
    public = rng.normal(size=(2, d))
    previous[2] = 0
    order, starts = rng.permutation(d), np.array([0, 50, d])
    parts = np.empty((k, d), dtype=np.float32)
    private_parts(updates, public, previous, order, starts, parts)
    for begin, end in ((0, 50), (50, d)):
        cell = order[begin:end]
        for i in range(k):
            columns = [np.ones(len(cell)), *public[:, cell]]
            if i < 2:
                columns.append(previous[i, cell])
            design = np.stack(columns, axis=1)
            fit = design @ np.linalg.lstsq(design, updates[i, cell], rcond=None)[0]
            assert parts[i, cell] == pytest.approx(updates[i, cell] - fit, abs=1e-5)


def test_gram_holds_all_inner_products(rng):
    rows = rng.normal(size=(5, 131)).astype(np.float32)
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    assert gram(rows) == pytest.approx(exact, abs=1e-10)
