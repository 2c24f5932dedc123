from math import log

import pytest

import fedmerit
from fedmerit.errors import SettingError


def test_sample_size_is_the_union_bound_over_pairs() -> None:
    size = fedmerit.sample_size(0.1, 0.05, 3)
    assert size - 1 < log(2 * 3 / 0.05) / (2 * 0.1**2) <= size
    # A quarter of the error takes sixteen times the sample.
    assert fedmerit.sample_size(0.025, 0.05, 3) == pytest.approx(16 * size, rel=0.01)


def test_required_parameters_follow_theorem_1() -> None:
    count = fedmerit.required_parameters(4, 0.5, 0.1)
    assert count - 1 < 9 * 16 * log(10) / 0.25 <= count


@pytest.mark.parametrize("size", [fedmerit.sample_size, fedmerit.required_parameters])
@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [
        (0.0, 0.1, "epsilon must be"),
        (0.1, 1.0, "delta must be"),
        (0.1, 1.5, "delta must be"),
        (0.1, 0.0, "delta must be"),
    ],
)
def test_accuracies_that_mean_nothing_are_refused(size, epsilon, delta, message) -> None:
    settings = {"clients": 4} if size is fedmerit.sample_size else {"levels": 4}
    with pytest.raises(SettingError, match=message):
        size(epsilon=epsilon, delta=delta, **settings)
