"""Named arrays to one vector and back."""

import numpy as np
import pytest

from fedmerit.errors import UpdatesError
from fedmerit.server import Server
from fedmerit.server.layout import Layout, layer_numbers
from fedmerit.server.replies import read_update

MODEL = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.seen": np.array(7),
    "b": np.ones(2, np.float16),
}


def sent(arrays, layout, model):
    into = np.empty(layout.parameters, layout.dtype)

    def read(name, shape):
        assert arrays[name].shape == shape
        return arrays[name].reshape(-1)

    read_update(layout, arrays.keys(), read, model, into)
    return into


def test_a_vector_is_cut_into_the_arrays_it_came_from():
    layout = Layout(MODEL.items())
    vector = layout.flatten(MODEL.items())
    assert vector.tolist() == [0, 1, 2, 3, 4, 5, 1, 1]
    assert layout.layers.tolist() == [0] * 6 + [1] * 2
    back = layout.cut(vector)
    assert back.keys() == {"a.weight", "b"}
    for name, values in back.items():
        np.testing.assert_array_equal(values, MODEL[name], strict=True)


def test_an_update_is_what_was_sent_or_the_step_from_the_model():
    layout = Layout(MODEL.items())
    vector = layout.flatten(MODEL.items())
    np.testing.assert_array_equal(sent(MODEL, layout, None), vector)
    np.testing.assert_array_equal(sent(MODEL, layout, vector - 1), np.ones(8))


def test_what_does_not_fit_its_type_is_refused():
    layout = Layout(MODEL.items())
    with pytest.raises(UpdatesError, match="b must stay finite as float16"):
        layout.cut(np.full(8, 1e6, np.float32))
    huge = MODEL | {"a.weight": np.full((2, 3), 3e38, np.float32)}
    with pytest.raises(UpdatesError, match="beyond its type's range"):
        sent(huge, layout, np.full(8, -3e38, np.float32))


def test_another_type_of_number_is_cast_and_what_is_no_number_is_refused():
    layout = Layout(MODEL.items())
    vector = layout.flatten(MODEL.items())
    for kind in (np.float64, np.float16, np.int64, np.uint8):
        other = MODEL | {"a.weight": MODEL["a.weight"].astype(kind)}
        read = sent(other, layout, vector - 1)
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, np.ones(8))
    with pytest.raises(UpdatesError, match=r"a\.weight must be numbers, got complex128"):
        sent(MODEL | {"a.weight": np.ones((2, 3), complex)}, layout, None)


def test_a_weight_and_its_bias_share_a_layer_and_plain_names_do_not():
    sizes = {"a.weight": 2, "a.bias": 1, "b": 1, "c": 2}
    assert layer_numbers(sizes).tolist() == [0, 0, 0, 1, 2, 2]


def test_a_model_without_floats_is_refused():
    with pytest.raises(UpdatesError, match="must have floating-point arrays"):
        Layout([("a", np.arange(3))])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_what_is_public_is_what_clients_get(kind):
    server = Server({"a": np.zeros(600, kind), "b": np.zeros(5, np.float32)}, seed=0)
    rng = np.random.default_rng(1)
    for number in (1, 2):
        common = rng.normal(size=600)
        updates = {
            name: {"a": common + 0.5 * rng.normal(size=600), "b": rng.normal(size=5)}
            for name in "defg"
        }
        server.settle(updates=updates)
        models = server.state.history.models
        assert len(models) == number + 1
        np.testing.assert_array_equal(models[-1][:600], server.model["a"])
        server.publish(server.model)  # an engine hands back what it was given
        assert server.state.history.models is models
