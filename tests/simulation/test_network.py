"""A module and its flat vector are the same thing."""

import numpy as np
import pytest
import torch
from torch import nn

from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.rng import stream
from fedmerit.simulation.training.models import Mlp, build_model
from fedmerit.simulation.training.network import Network


def test_the_papers_mlp_has_its_159010_parameters():
    network = Network(build_model("mlp", (1, 28, 28), 10, stream(0)), (1, 28, 28))
    assert network.parameters == 159_010
    assert np.bincount(network.layers).tolist() == [784 * 200 + 200, 2010]
    assert [(site.shape, site.p) for site in network.dropouts] == [((200,), 0.5)]


def test_lenet5_has_its_61706_parameters():
    assert Network(build_model("lenet5", (1, 28, 28), 10, stream(0)), (1, 28, 28)).parameters == (
        61_706
    )


@pytest.mark.parametrize("name", ["mlp", "lenet5", "cnn"])
def test_vectors_go_there_and_back_in_the_order_of_pytorch(name):
    network = Network(build_model(name, (1, 28, 28), 10, stream(0)), (1, 28, 28))
    vector = stream(1).standard_normal(network.parameters, dtype=np.float32)
    network.load(vector)
    np.testing.assert_array_equal(network.flatten(), vector)
    expected = torch.nn.utils.parameters_to_vector(network.module.parameters())
    np.testing.assert_array_equal(vector, expected.detach().numpy())
    assert network.layers.shape == (network.parameters,)


def test_initial_parameters_come_from_the_stream_and_leave_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = (
        Network(build_model("cnn", (1, 8, 8), 10, stream(s)), (1, 8, 8)).flatten()
        for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert torch.equal(torch.rand(3), expected)


def test_evaluation_knows_a_perfect_model():
    network = Network(Mlp((3, 3)), (3,))
    x = np.eye(3, dtype=np.float32)
    vector = np.concatenate([30 * np.eye(3, dtype=np.float32).ravel(), np.zeros(3, np.float32)])
    loss, accuracy = network.evaluate(vector, x, np.arange(3))
    assert accuracy == 1
    assert loss < 1e-6
    assert network.evaluate(-vector, x, np.arange(3))[1] == 0


def test_dropout_keeps_the_mean():
    network = Network(Mlp((3, 1000, 3), dropout=0.2), (3,))
    drawn = np.empty((50, 1000), dtype=np.float32)
    network.dropouts[0].draw(stream(0), drawn)
    assert (drawn == 0).mean() == pytest.approx(0.2, abs=0.01)
    assert drawn.mean() == pytest.approx(1, abs=0.01)


def test_what_cannot_be_used_says_why():
    with pytest.raises(SettingError, match=r"no running statistics, got buffers 1\.running_mean"):
        Network(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), (3,))
    with pytest.raises(SettingError, match=r"must be float32, got torch\.float64 in 0\.weight"):
        Network(nn.Sequential(nn.Linear(3, 3).double()), (3,))
    with pytest.raises(SettingError, match="at least 12 x 12, got 8 x 8"):
        build_model("lenet5", (1, 8, 8), 10, stream(0))
    with pytest.raises(UnknownNameError, match="did you mean 'lenet5'"):
        build_model("lenet", (1, 28, 28), 10, stream(0))
    with pytest.raises(SettingError, match="dropout must be less than 1, got 1"):
        Mlp((3, 3), dropout=1.0)
