"""The benchmarks' own arithmetic; what they measure is not tested, it is reported."""

import numpy as np
import pytest

from checks.speed.growth import exponent
from checks.speed.guard import PARTS, USUAL, worsened
from checks.speed.rounds import make_round, public_vectors, roc_auc
from checks.speed.timing import Cost


def test_guard_reports_what_became_more_than_a_quarter_worse():
    before = {"a": 4.0, "b": 4.0, "gone": 1.0}
    lines = worsened(before, {"a": 5.0, "b": 5.1, "new": 9.0})
    assert [line.split(":")[0] for line in lines] == ["b"]


def test_guard_looks_at_parts_that_there_are():
    assert set(USUAL) < set(PARTS)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5])
def test_exponent_of_a_power_is_that_power(power):
    curve = {size: Cost(0.3 * size**power, 0) for size in (10, 100, 1000, 10_000)}
    assert exponent(curve) == pytest.approx(power)
    assert exponent(curve, upper=True) == pytest.approx(power)


def test_roc_auc_counts_pairs_and_half_of_the_ties():
    kinds = ["honest", "honest", "stale", "stale", "random"]
    assert roc_auc(np.array([2.0, 1.0, 1.0, 0.0, 9.0]), kinds, "stale") == pytest.approx(3.5 / 4)
    assert roc_auc(np.array([2.0, 1.0, 1.0, 0.0, 9.0]), kinds, "random") == 0.0


def test_rounds_hold_replays_of_the_public_vector_and_independent_noise():
    public = public_vectors(2, 30_000)
    updates, kinds = make_round(10, public)
    cosine = np.corrcoef(np.vstack((public[:1], updates)))[0, 1:]
    stale = np.array(kinds) == "stale"
    assert (cosine[stale] > 0.97).all()
    assert (np.abs(cosine[np.array(kinds) == "random"]) < 0.03).all()
    assert abs(np.corrcoef(public)[0, 1]) < 0.03
