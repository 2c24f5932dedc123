from math import isnan

import numpy as np
import pytest

import fedmerit
from fedmerit.intervals import mean_half_width, score_half_widths, student_quantile
from fedmerit.types import RoundInputs
from tests.conftest import example_round


@pytest.mark.parametrize(
    ("freedom", "expected"),  # two-sided 95 % points of Student's t, as printed in any table
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042)],
)
def test_student_quantiles_are_those_of_the_tables(freedom, expected):
    assert student_quantile(0.95, freedom) == pytest.approx(expected, abs=0.005)


def test_the_interval_of_a_mean_by_hand():
    # Mean 2, standard deviation 1, three values: 4.303 / sqrt(3).
    assert mean_half_width([1.0, 2.0, 3.0]) == pytest.approx(2.484, abs=1e-3)
    assert isnan(mean_half_width([1.0]))


def test_halves_find_the_standard_error_of_a_mean():
    """For the mean of n independent numbers it is known: their deviation over sqrt(n)."""
    rng = np.random.default_rng(0)
    inputs = RoundInputs(rng.normal(size=(200, 1000)))
    widths = score_half_widths(
        inputs, lambda part: part.updates.mean(axis=1), rng, resamples=20, level=0.95
    )
    errors = widths / student_quantile(0.95, 10)
    assert (errors**2).mean() == pytest.approx(1 / 1000, rel=0.1)
    truth_inside = np.abs(inputs.updates.mean(axis=1)) <= widths
    assert 0.9 <= truth_inside.mean() <= 0.99


def test_intervals_of_scores_shrink_with_more_parameters():
    widths = []
    for parameters in (400, 6400):
        inputs = fedmerit.validation.check_round(example_round(parameters=parameters, riders=0))
        scorer = fedmerit.ExactPCA()
        widths.append(
            score_half_widths(
                inputs,
                lambda part, s=scorer: s.score(part, np.random.default_rng(0)).scores,
                np.random.default_rng(1),
            ).mean()
        )
    assert widths[1] < widths[0] / 2


def test_halves_too_small_to_score_give_no_interval():
    inputs = fedmerit.validation.check_round(example_round(parameters=20))
    widths = score_half_widths(
        inputs,
        lambda part: fedmerit.ExactPCA().score(part, np.random.default_rng(0)).scores,
        np.random.default_rng(1),
    )
    assert np.isnan(widths).all()
