"""Every public function on arbitrary input: a result that keeps its laws, or one of our errors."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedmerit
from fedmerit.errors import FedMeritError

FLOATS = (np.float16, np.float32, np.float64)


def any_matrix():
    """Matrices of any size and any floats: NaN, infinities, subnormals and huge ones included."""
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=24)
    return st.sampled_from(FLOATS).flatmap(lambda dtype: hnp.arrays(dtype, shapes))


any_vector = hnp.arrays(np.float64, st.integers(0, 12))
any_number = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=3), st.booleans())


def result_or_error(call, *arguments, **settings):
    try:
        return call(*arguments, **settings)
    except FedMeritError:
        return None


@given(any_matrix(), st.sampled_from(sorted(fedmerit.SCORERS)))
@example(np.float32(2e8) * (1 - np.eye(3, 6, dtype=np.float32)), "merit")
@example(np.full((3, 6), 2e8, np.float32) * (np.arange(3) > 0)[:, None], "merit")
def test_score(updates, method):
    before = updates.copy()
    result = result_or_error(fedmerit.score, updates, method=method, rng=0)
    np.testing.assert_array_equal(updates, before)
    if result is not None:
        assert result.scores.shape == (len(updates),)
        assert np.isfinite(result.scores).all()
        weights = fedmerit.gated_weights(result)
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(), 1)


@given(any_matrix(), any_matrix(), hnp.arrays(np.int64, st.integers(0, 24)))
def test_score_with_public_and_layers(updates, public, layers):
    result = result_or_error(fedmerit.score, updates, public=public, layers=layers, rng=0)
    assert result is None or np.isfinite(result.scores).all()


@given(any_matrix(), st.none() | any_vector, st.sampled_from(sorted(fedmerit.AGGREGATORS)))
def test_aggregate(updates, weights, rule):
    change = result_or_error(fedmerit.aggregate, updates, weights, rule=rule, norm_bound=3.0)
    if change is not None:
        assert change.shape == updates.shape[1:]
        assert np.isfinite(change).all()


@given(any_vector, any_number)
def test_weights(scores, alpha):
    weights = result_or_error(fedmerit.weights, scores, alpha)
    if weights is not None:
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(), 1)


@given(st.sampled_from(sorted(fedmerit.QUANTISERS)), any_number, any_matrix())
def test_quantisers(name, levels, updates):
    quantiser = result_or_error(fedmerit.QUANTISERS[name], levels=levels)
    if quantiser is not None:
        method = fedmerit.ExactPCA(quantiser=quantiser)
        result_or_error(fedmerit.score, updates, method=method, rng=0)


@given(any_number)
def test_watch(rate):
    result_or_error(fedmerit.Watch, rate)


@given(any_number | st.integers(2, 256), any_number, any_number)
@example(8, 1e-200, 0.5)
@example(8, 0.5, 5e-324)
def test_required_parameters(levels, epsilon, delta):
    needed = result_or_error(fedmerit.required_parameters, levels, epsilon, delta)
    assert needed is None or needed >= 1
