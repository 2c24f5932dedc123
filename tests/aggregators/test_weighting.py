import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedmerit
from fedmerit.errors import InvalidInputError

scores_of_a_round = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1, 1))


@given(scores_of_a_round, st.floats(0, 1e6))
def test_weights_are_a_distribution_even_for_huge_exponents(scores, alpha):
    result = fedmerit.weights(scores, alpha)
    assert np.isfinite(result).all()
    assert (result >= 0).all()
    assert result.sum() == pytest.approx(1)


@given(scores_of_a_round, st.floats(0, 100))
def test_weights_follow_the_order_of_the_scores(scores, alpha):
    order = np.argsort(scores, kind="stable")
    assert (np.diff(fedmerit.weights(scores, alpha)[order]) >= 0).all()


def test_known_weights():
    assert fedmerit.weights([0, 0, 0, 0]).tolist() == [0.25] * 4
    assert fedmerit.weights([1.0, 0.0], np.log(3)) == pytest.approx([0.75, 0.25])
    assert fedmerit.weights([1.0, 0.0], 1e6).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("scores", "alpha", "message"),
    [
        ([0.1, np.nan], 10, "scores must be finite, got nan"),
        ([], 10, "scores must be a non-empty vector"),
        ([[0.1]], 10, "scores must be a non-empty vector"),
        (["a"], 10, "scores must be numbers"),
        ([0.1], -1, "alpha must be at least 0, got -1"),
        ([0.1], np.inf, "alpha must be finite, got inf"),
    ],
)
def test_bad_scores_name_the_rule_and_the_value(scores, alpha, message):
    with pytest.raises(InvalidInputError, match=message):
        fedmerit.weights(scores, alpha)


def test_required_parameters_after_theorem_1():
    assert fedmerit.required_parameters(8, 0.1, 0.05) == 172555
    assert fedmerit.required_parameters(2, 1.0, np.exp(-1)) == 36  # 9 h^2


@given(st.integers(2, 256), st.floats(0.01, 1), st.floats(0.001, 0.5))
def test_required_parameters_scale_with_the_inverse_square_of_epsilon(levels, epsilon, delta):
    one = fedmerit.required_parameters(levels, epsilon, delta)
    half = fedmerit.required_parameters(levels, epsilon / 2, delta)
    assert abs(half - 4 * one) <= 4


def test_absurd_scores_still_give_weights():
    np.testing.assert_array_equal(fedmerit.weights([1e308, -1e308, 0.0]), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(fedmerit.weights([1e308, -1e308], alpha=0.0), [0.5, 0.5])


def contributions(**known):
    return fedmerit.Contributions.of("test", np.zeros(3), **known)


def evidence_of(agreement=(1.0, 1.0, 1.0), copies=(1, 1, 1)):
    ones = np.ones(3)
    everybody = np.ones(3, dtype=np.bool_)
    return fedmerit.Evidence(
        agreement=np.array(agreement),
        typical=ones,
        least=ones / 3,
        deviation=ones.copy(),
        explained=np.zeros(3),
        replayed=~everybody,
        copies=np.array(copies, dtype=float),
        members=everybody,
        way=np.zeros(3, dtype=np.int8),
        power=np.zeros(3),
    )


def test_gated_weights_by_hand():
    evidence = evidence_of(agreement=[1.0, 0.5, 1.0])
    eligible = np.array([True, True, False])
    found = fedmerit.gated_weights(contributions(evidence=evidence, eligible=eligible))
    np.testing.assert_allclose(found, [0.8, 0.2, 0.0])
    found = fedmerit.gated_weights(contributions(evidence=evidence_of(copies=[2, 2, 1])))
    np.testing.assert_allclose(found, [0.25, 0.25, 0.5])


def test_where_nobody_is_eligible_weights_are_equal():
    found = fedmerit.gated_weights(contributions(eligible=np.zeros(3, dtype=bool)))
    np.testing.assert_allclose(found, 1 / 3)
