"""Which parameters are looked at, and how many."""

from math import log

import numpy as np
import pytest

import fedmerit
from fedmerit.errors import SettingError
from fedmerit.sampling import sample_parameters
from fedmerit.validation import check_round
from tests.rounds import public_round


def test_a_sample_keeps_the_same_parameters_of_everything(rng):
    marks = np.arange(30_000.0)
    layers = np.repeat([0, 1], [29_000, 1_000])
    inputs = check_round(np.tile(marks, (3, 1)), marks, layers, np.tile(marks, (3, 1)))
    sampled = sample_parameters(inputs, 10_000, rng)
    kept = sampled.updates[0].astype(int)
    assert (np.diff(kept) > 0).all()
    assert (sampled.updates == kept).all()
    assert (sampled.public[0] == kept).all()
    assert (sampled.previous == kept).all()
    assert (sampled.layers == layers[kept]).all()
    assert (sampled.layers == 1).sum() == 1_000  # a small layer is kept whole
    assert (sampled.layers == 0).sum() == pytest.approx(29_000 / 3, rel=0.05)


def test_small_rounds_and_no_size_are_left_alone(rng):
    inputs = check_round(np.ones((2, 100)))
    assert sample_parameters(inputs, 100, rng) is inputs
    assert sample_parameters(inputs, None, rng) is inputs


def test_merit_of_a_sample_is_close_to_merit_of_all():
    world = public_round(clients=6, parameters=40_000)
    updates = world.with_riders(world.last_update)
    whole = fedmerit.score(updates, public=world.public, sample=None, rng=0)
    part = fedmerit.score(updates, public=world.public, sample=10_000, rng=0)
    assert part.scores == pytest.approx(whole.scores, abs=0.05)
    assert part.flagged.tolist() == whole.flagged.tolist()


def test_bad_size_is_refused():
    with pytest.raises(SettingError, match="sample must be at least 1, got 0"):
        fedmerit.Merit(sample=0)


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
