import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedmerit
from fedmerit import AGGREGATORS
from fedmerit.aggregators.rules import krum_distances, sorting_network
from fedmerit.errors import SettingError, UnknownNameError, UpdatesError, WeightsError
from tests import naive
from tests.strategies import float_matrices

pytestmark = pytest.mark.kernel
every_rule = pytest.mark.parametrize("rule", sorted(AGGREGATORS))
both_widths = st.one_of(float_matrices(width=32), float_matrices(width=64))
small_weights = st.lists(st.integers(0, 4), min_size=6, max_size=6)


@pytest.mark.parametrize("size", range(1, 12))
def test_network_sorts_every_zero_one_input(size):
    """Knuth's zero-one principle: that is enough to sort everything."""
    for word in range(2**size):
        values = [word >> i & 1 for i in range(size)]
        for low, high in sorting_network(size):
            if values[low] > values[high]:
                values[low], values[high] = values[high], values[low]
        assert values == sorted(values)


@given(both_widths)
def test_median_is_numpys(updates):
    expected = np.median(updates.astype(np.float64), axis=0).astype(updates.dtype)
    assert fedmerit.aggregate(updates, rule="median") == pytest.approx(expected, rel=1e-6)
    equal = np.full(len(updates), 0.3)
    weighted = fedmerit.aggregate(updates, equal, rule="median")
    assert (weighted == fedmerit.aggregate(updates, rule="median")).all()


@given(both_widths, small_weights)
def test_weighted_median_equals_the_definition(updates, weights):
    weights = weights[: len(updates)]
    if not any(weights):
        weights[0] = 1
    result = fedmerit.aggregate(updates, weights, rule="median")
    expected = [naive.weighted_median(column, weights) for column in updates.T]
    assert result == pytest.approx(np.array(expected).astype(updates.dtype), rel=1e-6)


@given(both_widths, st.floats(0, 0.49))
def test_trimmed_mean_equals_the_definition(updates, trim):
    result = fedmerit.aggregate(updates, rule="trimmed-mean", trim=trim)
    count = int(trim * len(updates))
    expected = np.array([naive.trimmed_mean(column, count) for column in updates.T])
    scale = np.abs(updates).max(axis=0).astype(np.float64)
    assert (np.abs(result - expected) <= 1e-6 * scale + 1e-300).all()


@given(
    hnp.arrays(np.float64, (5, 7), elements=st.floats(-100, 100)),
    hnp.arrays(np.float64, 5, elements=st.floats(0.01, 10)),
)
def test_mean_follows_its_weights(updates, weights):
    result = fedmerit.aggregate(updates, weights)
    assert result == pytest.approx(np.average(updates, axis=0, weights=weights), abs=1e-9)


@given(hnp.arrays(np.float32, (6, 5), elements=st.floats(-100, 100, width=32)), st.integers(0, 3))
def test_krum_distances_equal_their_twin(updates, byzantine):
    assert krum_distances(updates, byzantine) == pytest.approx(
        naive.krum_distances(updates, byzantine), rel=1e-9, abs=1e-9
    )


def test_distances_survive_a_large_common_offset(rng):
    """|x|^2 - 2xy + |y|^2 in float32 would lose everything here."""
    updates = rng.normal(size=(5, 40)).astype(np.float32)
    near = krum_distances(updates, 1)
    far = krum_distances(updates + np.float32(4096), 1)
    assert far == pytest.approx(near, rel=1e-2)


def test_krum_picks_from_the_crowd(rng):
    updates = rng.normal(scale=0.01, size=(7, 30))
    updates[2] += 10
    updates[5] -= 10
    chosen = fedmerit.aggregate(updates, rule="krum", byzantine=2)
    assert any((chosen == row).all() for row in np.delete(updates, [2, 5], axis=0))
    average = fedmerit.aggregate(updates, rule="multi-krum", byzantine=2, keep=5)
    assert average == pytest.approx(np.delete(updates, [2, 5], axis=0).mean(axis=0), abs=1e-12)


def test_geometric_median_minimises_the_sum_of_distances(rng):
    updates = rng.normal(size=(9, 6))
    updates[0] += 50
    weights = rng.uniform(0.5, 1, size=9)

    def total(point):
        return (weights * np.linalg.norm(updates - point, axis=1)).sum()

    centre = fedmerit.aggregate(updates, weights, rule="geometric-median")
    assert all(total(centre) <= total(centre + rng.normal(scale=0.05, size=6)) for _ in range(50))
    assert np.linalg.norm(centre) < 3


def test_geometric_median_of_three_points_is_the_fermat_point():
    """An equilateral triangle's is its centre; with weight above half it is that corner."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    centre = fedmerit.aggregate(corners, rule="geometric-median")
    assert centre == pytest.approx([0.5, np.sqrt(0.75) / 3], abs=1e-6)
    heavy = fedmerit.aggregate(corners, [5, 1, 1], rule="geometric-median")
    assert heavy == pytest.approx([0, 0], abs=1e-4)


def test_the_rules_differ_on_a_skewed_round():
    """An input on which no two rules agree, so that none can stand in for another."""
    updates = np.array([[0.0], [1.0], [2.0], [4.0], [9.0], [100.0]])
    results = {rule: float(fedmerit.aggregate(updates, rule=rule)[0]) for rule in AGGREGATORS}
    assert results["mean"] == pytest.approx(116 / 6)
    assert results["median"] == 3
    assert results["krum"] == 2
    assert results["multi-krum"] == pytest.approx(16 / 5)
    assert 2 - 1e-3 <= results["geometric-median"] <= 4 + 1e-3
    trimmed = float(fedmerit.aggregate(updates, rule="trimmed-mean", trim=0.2)[0])
    assert trimmed == pytest.approx(16 / 4)


@every_rule
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_contract(rule, dtype, rng):
    updates = rng.normal(size=(5, 300)).astype(dtype)
    before = updates.copy()
    result = fedmerit.aggregate(updates, rule=rule)
    assert result.shape == (300,)
    assert result.dtype == dtype
    assert (updates == before).all()
    assert result.tobytes() == fedmerit.aggregate(updates, rule=rule).tobytes()
    shuffled = fedmerit.aggregate(updates[rng.permutation(5)], rule=rule)
    assert shuffled == pytest.approx(result, abs=1e-5 if dtype == np.float32 else 1e-12)
    shifted = fedmerit.aggregate(updates + 1, rule=rule)
    assert shifted == pytest.approx(result + 1, abs=1e-4 if dtype == np.float32 else 1e-7)
    constant = np.full((5, 4), 2.5, dtype=dtype)
    assert fedmerit.aggregate(constant, rule=rule).tolist() == [2.5] * 4


@pytest.mark.parametrize("rule", ["mean", "median", "geometric-median"])
def test_a_client_without_weight_has_no_say(rule, rng):
    updates = rng.normal(size=(5, 40))
    updates[2] = 1e12
    with_zero = fedmerit.aggregate(updates, [1, 2, 0, 3, 1], rule=rule)
    without = fedmerit.aggregate(np.delete(updates, 2, axis=0), [1, 2, 3, 1], rule=rule)
    assert with_zero == pytest.approx(without, abs=1e-6)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -2, 1], "weights must not be negative, got -2"),
        ([0, 0, 0], "weights must not all be zero, got only zeros"),
        ([1, 2], r"weights must have one entry per client, shape \(3,\), got \(2,\)"),
        ([1, np.nan, 1], "weights must be finite, got nan"),
        (["a", "b", "c"], "weights must be numbers, got"),
    ],
)
@pytest.mark.parametrize("rule", ["mean", "median"])
def test_bad_weights_name_the_rule_and_the_value(weights, message, rule):
    with pytest.raises(WeightsError, match=message):
        fedmerit.aggregate(np.ones((3, 4)), weights, rule=rule)


def test_huge_weights_do_not_overflow():
    assert fedmerit.aggregate(np.eye(2), [1.7e308, 1.7e308]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ({"rule": "medain"}, UnknownNameError, "did you mean 'median'"),
        ({"rule": "krum", "weights": [1, 1, 1]}, WeightsError, "does not use weights"),
        ({"rule": "krum", "byzantine": 1}, SettingError, "byzantine must be at most 0, got 1"),
        ({"rule": "multi-krum", "keep": 4}, SettingError, "keep must be at most 3, got 4"),
        ({"rule": "trimmed-mean", "trim": 0.5}, SettingError, "trim must be less than 0.5"),
        ({"rule": "mean", "trim": 0.1}, SettingError, "rule 'mean' does not take trim"),
    ],
)
def test_bad_calls_name_the_rule_and_the_value(call, error, message):
    with pytest.raises(error, match=message):
        fedmerit.aggregate(np.ones((3, 4)), **call)


def test_krum_needs_three_clients():
    with pytest.raises(SettingError, match="krum needs at least 3 clients, got 2"):
        fedmerit.aggregate(np.ones((2, 4)), rule="krum")


@pytest.mark.parametrize("updates", [np.ones((0, 4)), np.ones(4), np.full((2, 2), np.inf)])
def test_bad_updates_are_refused(updates):
    with pytest.raises(UpdatesError, match="updates must"):
        fedmerit.aggregate(updates)


def test_norm_bound_shrinks_the_long_and_leaves_the_others(rng):
    updates = rng.normal(size=(5, 50))
    updates /= np.linalg.norm(updates, axis=1, keepdims=True)
    updates[0] *= 100
    alone = fedmerit.aggregate(updates, [1, 0, 0, 0, 0], norm_bound=2.0)
    assert np.linalg.norm(alone) == pytest.approx(100)  # it is its own median
    bounded = fedmerit.aggregate(updates, [1, 1, 1, 1, 1], norm_bound=2.0)
    by_hand = np.concatenate([updates[:1] / 50, updates[1:]]).mean(axis=0)
    assert bounded == pytest.approx(by_hand)
    untouched = fedmerit.aggregate(updates[1:], norm_bound=2.0)
    assert untouched == pytest.approx(updates[1:].mean(axis=0))


def test_empty_reports_do_not_set_the_norm(rng):
    """Where most reports are zero or have no weight, the others keep their length."""
    updates = np.zeros((5, 20))
    updates[0], updates[1] = rng.normal(size=(2, 20))
    assert fedmerit.aggregate(updates, norm_bound=2.0) == pytest.approx(updates.mean(axis=0))
    updates[2:] = 1e-9
    kept = fedmerit.aggregate(updates, [1, 1, 0, 0, 0], norm_bound=2.0)
    assert kept == pytest.approx(updates[:2].mean(axis=0))
    assert (fedmerit.aggregate(np.zeros((3, 4)), norm_bound=2.0) == 0).all()


def test_an_empty_report_beside_a_long_one_is_left_as_it_is():
    """Without a warning of an overflow, which the tests turn into an error."""
    updates = [[0.0], [10.0], [10.0], [1000.0]]
    assert fedmerit.aggregate(updates, norm_bound=2.0).tolist() == [10.0]


@pytest.mark.parametrize("bound", [0, -1, float("nan")])
def test_bad_norm_bound_is_refused(bound):
    with pytest.raises(SettingError, match="norm_bound must be"):
        fedmerit.aggregate(np.ones((3, 4)), norm_bound=bound)
