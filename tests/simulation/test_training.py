"""Training together is sequential training, for every model, optimiser and mix of clients."""

import numpy as np
import pytest
import torch
from torch import nn

from fedmerit.behaviours import LocalData
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.rng import stream
from fedmerit.simulation.training import cores, gradients, perceptron, stacked
from fedmerit.simulation.training.lenet import train_lenets
from fedmerit.simulation.training.local import train_together
from fedmerit.simulation.training.models import Mlp, build_model
from fedmerit.simulation.training.network import Network
from fedmerit.simulation.training.sequential import train_sequential
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob, plan_batches
from fedmerit.simulation.training.stacked import train_stacked

SHAPE, CLASSES = (1, 12, 12), 10
SIZES = (23, 40, 7, 40, 16)  # several batches, short last batches, less than one batch


def jobs_of(sizes, seed=0, clients=None):
    jobs = []
    for client, size in enumerate(sizes) if clients is None else clients:
        data = stream(seed, "data", client)
        x = data.standard_normal((size, *SHAPE), dtype=np.float32)
        y = data.integers(0, CLASSES, size)
        jobs.append(
            TrainingJob(
                LocalData(x, y), stream(seed, "batches", client), stream(seed, "drop", client)
            )
        )
    return jobs


def network_of(name, dropout=0.0):
    module = build_model(name, SHAPE, CLASSES, stream(3), hidden=20, dropout=dropout)
    return Network(module, SHAPE)


class Brought(nn.Module):
    """A module of a user: shared weights, its own dropout, nothing we know."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(144, 12)
        self.again = nn.Linear(12, 12)
        self.drop = nn.Dropout(0.3)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        x = self.first(x.flatten(1)).tanh()
        return self.again(self.drop(self.again(x).tanh()))[:, :10] * self.scale


@pytest.mark.parametrize("train", [train_stacked, train_together])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize(
    ("name", "dropout"), [("mlp", 0.0), ("mlp", 0.5), ("lenet5", 0.0), ("cnn", 0.0)]
)
def test_together_equals_sequential(name, dropout, optimiser, train):
    network = network_of(name, dropout)
    start = network.flatten()
    training = LocalTraining(epochs=2, batch_size=10, optimiser=optimiser)
    rate = 0.01 if optimiser == "sgd" else 0.001
    expected = train_sequential(network, start, jobs_of(SIZES), training, rate)
    found = train(network, start, jobs_of(SIZES), training, rate)
    assert np.abs(expected).max() > 1e-3
    # Adam divides by the size of a gradient, which blows up rounding where it is almost zero.
    np.testing.assert_allclose(found, expected, atol=2e-6 if optimiser == "sgd" else 1e-4)


def test_a_module_a_user_brings_is_stacked_with_its_dropout():
    torch.manual_seed(0)
    network = Network(Brought(), SHAPE)
    start = network.flatten()
    training = LocalTraining(epochs=2)
    expected = train_sequential(network, start, jobs_of(SIZES), training, 0.05)
    found = train_stacked(network, start, jobs_of(SIZES), training, 0.05)
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_the_fast_path_of_the_mlp_equals_the_general_one(monkeypatch):
    network = network_of("mlp", dropout=0.5)
    start, training = network.flatten(), LocalTraining(epochs=2)
    fast = train_stacked(network, start, jobs_of(SIZES), training, 0.05)
    monkeypatch.setattr(gradients, "_mlp_gradient", gradients._module_gradient)
    general = train_stacked(network, start, jobs_of(SIZES), training, 0.05)
    np.testing.assert_allclose(fast, general, atol=2e-6)


def test_deeper_mlps_are_stacked_too():
    torch.manual_seed(1)
    network = Network(Mlp((144, 16, 12, 10), dropout=0.2), SHAPE)
    start, training = network.flatten(), LocalTraining(epochs=2)
    expected = train_sequential(network, start, jobs_of(SIZES), training, 0.05)
    found = train_stacked(network, start, jobs_of(SIZES), training, 0.05)
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_clients_update_does_not_depend_on_who_else_trains_or_how_they_are_grouped(monkeypatch):
    network = network_of("mlp", dropout=0.5)
    start, training = network.flatten(), LocalTraining(epochs=2)
    together = train_stacked(network, start, jobs_of(SIZES), training, 0.05)
    alone = train_stacked(network, start, jobs_of(SIZES)[2:3], training, 0.05)
    np.testing.assert_allclose(together[2:3], alone, atol=2e-6)
    monkeypatch.setattr(stacked, "STACK_BYTES", 1)
    apart = train_stacked(network, start, jobs_of(SIZES), training, 0.05)
    np.testing.assert_allclose(together, apart, atol=2e-6)


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("inputs", "dropout", "batch_size"),
    [(5, 0.0, 7), (6, 0.4, 7), (5, 0.4, 3), (16, 0.0, 5), (19, 0.4, 10), (24, 0.0, 15)],
)
def test_the_kernel_equals_sequential_for_sizes_of_all_kinds(inputs, dropout, batch_size):
    torch.manual_seed(2)
    network = Network(Mlp((inputs, 7, 3), dropout), (inputs,))
    start = network.flatten()
    training = LocalTraining(epochs=2, batch_size=batch_size, momentum=0.9)

    def jobs():
        rng = stream(4, "data")
        sizes = (31, 7, 2)
        x = [rng.standard_normal((n, inputs), dtype=np.float32) for n in sizes]
        data = [LocalData(part, rng.integers(0, 3, len(part))) for part in x]
        return [TrainingJob(d, stream(4, "b", i), stream(4, "d", i)) for i, d in enumerate(data)]

    assert perceptron.is_perceptron(network, training)
    expected = train_sequential(network, start, jobs(), training, 0.1)
    found = perceptron.train_perceptrons(network, start, jobs(), training, 0.1)
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.kernel
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("shape", [(1, 12, 12), (2, 13, 15)])  # odd: a row and a column left over
def test_the_kernel_of_lenet_equals_sequential(shape, optimiser):
    network = Network(build_model("lenet5", shape, 3, stream(6)), shape)
    start = network.flatten()
    training = LocalTraining(epochs=1, batch_size=5, optimiser=optimiser, momentum=0.9)

    def jobs():
        rng = stream(5, "data")
        x = rng.standard_normal((7, *shape), dtype=np.float32)
        return [TrainingJob(LocalData(x, rng.integers(0, 3, 7)), stream(5, "b"), stream(5, "d"))]

    rate = 0.05 if optimiser == "sgd" else 0.001
    expected = train_sequential(network, start, jobs(), training, rate)
    assert np.abs(expected).max() > 1e-3
    found = train_lenets(network, start, jobs(), training, rate)
    np.testing.assert_allclose(found, expected, atol=2e-6 if optimiser == "sgd" else 1e-4)


@pytest.mark.parametrize("name", ["mlp", "lenet5"])
def test_the_kernel_gives_the_same_bits_for_any_number_of_threads(name, monkeypatch):
    network = network_of(name, dropout=0.5)
    start, training = network.flatten(), LocalTraining(epochs=2)
    many = train_together(network, start, jobs_of(SIZES), training, 0.05)
    monkeypatch.setattr(cores, "cores", lambda: 1)
    one = train_together(network, start, jobs_of(SIZES), training, 0.05)
    alone = train_together(network, start, jobs_of(SIZES)[2:3], training, 0.05)
    np.testing.assert_array_equal(many, one)
    np.testing.assert_array_equal(many[2:3], alone)


def test_same_streams_same_bits():
    network = network_of("mlp", dropout=0.5)
    start, training = network.flatten(), LocalTraining(epochs=2)
    first = train_stacked(network, start, jobs_of(SIZES), training, 0.05)
    np.testing.assert_array_equal(
        first, train_stacked(network, start, jobs_of(SIZES), training, 0.05)
    )
    other = train_stacked(network, start, jobs_of(SIZES, seed=1), training, 0.05)
    assert not np.array_equal(first, other)


def test_training_learns_and_changes_neither_start_nor_threads():
    network = network_of("mlp")
    start, threads = network.flatten(), torch.get_num_threads()
    before, job = start.copy(), jobs_of((60,))[0]
    update = train_stacked(network, start, [job], LocalTraining(epochs=20), 0.05)[0]
    loss, _ = network.evaluate(start, job.data.x, job.data.y)
    trained, accuracy = network.evaluate(start + update, job.data.x, job.data.y)
    assert trained < loss / 4
    assert accuracy > 0.9
    np.testing.assert_array_equal(start, before)
    assert torch.get_num_threads() == threads


def test_every_epoch_visits_every_sample_once_with_weights_that_sum_to_one():
    plan = plan_batches(23, LocalTraining(epochs=3, batch_size=10), stream(0))
    assert plan.steps == 9
    np.testing.assert_allclose(plan.weights.sum(axis=1), 1, rtol=1e-6)
    for epoch in range(3):
        rows = slice(3 * epoch, 3 * epoch + 3)
        seen = plan.indices[rows][plan.weights[rows] > 0]
        np.testing.assert_array_equal(np.sort(seen), np.arange(23))
    assert not np.array_equal(plan.indices[:3], plan.indices[3:6])
    assert plan_batches(4, LocalTraining(batch_size=10), stream(0)).indices.shape == (5, 4)


def test_the_learning_rate_decays_by_round():
    training = LocalTraining(learning_rate=1.0, decay=0.5)
    assert [training.rate(t) for t in (1, 2, 4)] == [1.0, 0.5, 0.125]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"epochs": 0}, SettingError, "epochs must be at least 1, got 0"),
        ({"momentum": 1.0}, SettingError, "momentum must be less than 1, got 1"),
        ({"learning_rate": 0}, SettingError, "learning_rate must be greater than 0"),
        ({"optimiser": "adm"}, UnknownNameError, "did you mean 'adam'"),
    ],
)
def test_settings_check_themselves(settings, error, message):
    with pytest.raises(error, match=message):
        LocalTraining(**settings)
