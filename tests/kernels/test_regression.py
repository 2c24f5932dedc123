from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit.comparison import gram, private_parts
from fedmerit.kernels.residual import NEGATIVE, POSITIVE, TIE, least_absolute, residual_signs
from fedmerit.kernels.spans import public_axes
from fedmerit.types import RoundInputs

pytestmark = pytest.mark.kernel


def fit_one(columns, target):
    return least_absolute(columns, target[None])[0]


def test_least_absolute_ignores_gross_errors(rng):
    g, w = rng.normal(size=(2, 200))
    target = 1.5 * g - 0.25 * w + 0.125
    target[::5] += rng.normal(scale=50, size=40)
    coefficients = fit_one(np.stack([g, w, np.ones(200)]), target)
    assert coefficients == pytest.approx([1.5, -0.25, 0.125], abs=1e-6)


@given(st.integers(0, 2**32))
def test_least_absolute_is_nearly_optimal(seed):
    """Compared with every line through two points, one of which is optimal."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 15))
    slope, constant = fit_one(np.stack([x, np.ones(15)]), y)
    best = min(
        np.abs(y - y[i] - (y[j] - y[i]) / (x[j] - x[i]) * (x - x[i])).sum()
        for i in range(15)
        for j in range(i)
    )
    assert np.abs(y - slope * x - constant).sum() <= best * 1.05


def test_clients_are_fitted_together_as_alone(rng):
    columns = rng.normal(size=(3, 101))
    targets = rng.normal(size=(5, 101))
    targets[3] = 0
    together = least_absolute(columns, targets)
    for i in range(5):
        assert together[i] == pytest.approx(fit_one(columns, targets[i]), abs=1e-12)
    assert (together[3] == 0).all()


def test_dependent_columns_do_no_harm(rng):
    g = rng.normal(size=100)
    columns = np.stack([g, 2 * g, np.zeros(100), np.ones(100)])
    coefficients = fit_one(columns, 3 * g)
    assert coefficients @ columns == pytest.approx(3 * g, abs=1e-6)


def test_signs_and_deviations_of_residuals(rng):
    d = 60
    starts = np.array([0, d, d])
    public = rng.uniform(1, 2, size=(1, d))
    updates = np.stack([2 * public[0], 2 * public[0], np.zeros(d)])
    updates[1, :5] += 1.0
    updates[1, 5:10] -= 1.0
    signals = np.empty((3, d), dtype=np.uint8)
    deviations = np.empty((3, 2, 2))
    residual_signs(updates, public_axes(public, starts), starts, 1e-6, signals, deviations)
    assert (signals[[0, 2]] == TIE).all()
    assert signals[1].tolist() == [POSITIVE] * 5 + [NEGATIVE] * 5 + [TIE] * 50
    assert deviations[1, 0, 0] == pytest.approx(10, rel=1e-3)
    assert deviations[0, 0, 1] == pytest.approx(
        np.abs(updates[0] - np.median(updates[0])).sum(), rel=1e-9
    )
    assert (deviations[:, 1] == 0).all()


def test_what_a_report_leaves_at_zero_is_a_tie(rng):
    d = 600
    starts, public = np.array([0, d]), rng.normal(size=(1, d))
    updates = 2 * public + rng.normal(size=(1, d))
    updates[0, :400] = 0.0
    signals, deviations = np.empty((1, d), dtype=np.uint8), np.empty((1, 1, 2))
    residual_signs(updates, public_axes(public, starts), starts, 1e-6, signals, deviations)
    assert (signals[0, :400] == TIE).all()
    assert (signals[0, 400:] != TIE).all()


def test_what_is_a_function_of_the_first_public_vector_is_public(rng):
    """Steps at its zero and at its quarters, and lines between them; another vector is not."""
    d = 1600
    starts, public = np.array([0, 400, 800, 1200, d]), rng.normal(size=(2, d))
    axes = public_axes(public, starts)
    for begin, end in pairwise(starts):
        g, part = public[0, begin:end], axes[:, begin:end]
        assert part @ part.T == pytest.approx(np.eye(len(axes)), abs=1e-12)
        ordered = np.sort(g)
        steps = [1.0 * (g >= ordered[(end - begin) * n // 4]) for n in (1, 2, 3)]
        for function in (np.ones_like(g), g, public[1, begin:end], np.sign(g), *steps):
            assert part.T @ (part @ function) == pytest.approx(function, abs=1e-9)
        strange = rng.normal(size=end - begin)
        assert np.abs(strange - part.T @ (part @ strange)).max() > 1
    assert len(public_axes(public[:, :1200], starts[:4])) == 3  # three strata have none to spare


def test_few_parameters_are_not_cut_in_parts(rng):
    """Of 130 there are halves, of 60 the signs alone; and where all are equal, not even these."""
    g = rng.normal(size=(1, 450))
    g[0, 390:] = 1.5
    starts = np.array([0, 130, 190, 390, 450])
    axes = public_axes(g, starts)
    assert [np.any(axes[:, a:b], axis=1).sum() for a, b in pairwise(starts)] == [4, 3, 5, 1]


def test_private_parts_are_the_remainders_of_least_squares(rng):
    k, d = 3, 300
    updates = rng.normal(size=(k, d))
    previous = rng.normal(size=(k, 2, d))
    public = rng.normal(size=(2, d))
    public[1, 130:] = 2 * public[0, 130:]  # dependent in the second stratum
    previous[2] = 0
    previous[1, 1] = 3 * previous[1, 0]
    starts = np.array([0, 130, d])
    _, parts = private_parts(
        RoundInputs(updates, public, previous=previous), starts, public_axes(public, starts)
    )
    for begin, end in ((0, 130), (130, d)):
        for i in range(k):
            columns = [np.ones(end - begin), *public[:, begin:end], *previous[i, :, begin:end]]
            design = np.stack(columns, axis=1)
            target = updates[i, begin:end]
            left = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
            assert parts[i, begin:end] == pytest.approx(left, abs=1e-9)


def test_a_report_made_of_public_vectors_and_its_own_past_has_no_private_part(rng):
    public = rng.normal(size=(2, 500)).astype(np.float32)
    past = rng.normal(size=(2, 1, 500)).astype(np.float32)
    updates = np.stack([public[0] - 3 * public[1] + past[0, 0], past[0, 0]])
    starts = np.array([0, 500])
    unknown, parts = private_parts(
        RoundInputs(updates, public, previous=past), starts, public_axes(public, starts)
    )
    assert np.abs(unknown[0]).max() > 1
    assert np.abs(parts[0]).max() < 1e-5
    assert np.abs(parts[1]).max() > 1  # the past of another client


def test_gram_holds_all_inner_products(rng):
    rows = rng.normal(size=(5, 131)).astype(np.float32)
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    assert gram(rows) == pytest.approx(exact, abs=1e-10)
