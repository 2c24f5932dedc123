"""DIN: the kernel computes what the module says, and touches only what a client looked up."""

import numpy as np
import pytest
import torch

from fedmerit.behaviours import LocalData
from fedmerit.errors import SettingError
from fedmerit.rng import stream
from fedmerit.simulation.clicks.generator import generate_events
from fedmerit.simulation.clicks.log import LogSettings, build_log
from fedmerit.simulation.training.din import (
    DinChoice,
    build_din,
    din_scores,
    embedding_rows,
    train_dins,
)
from fedmerit.simulation.training.local import train_together
from fedmerit.simulation.training.network import Network
from fedmerit.simulation.training.sequential import train_sequential
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def log():
    events = generate_events(users=8, items=40, events_per_user=9)
    return build_log("clicks", events, LogSettings(history=5, split="user"))


@pytest.fixture(scope="module")
def network(log):
    choice = DinChoice(embedding=4, attention=6, hidden=(10, 7))
    return Network(build_din(log, choice, stream(0, "model")), log.x.shape[1:])


def jobs(log):
    return [
        TrainingJob(
            LocalData(log.x[log.user == user], log.label[log.user == user]),
            stream(1, user, "batches"),
            stream(1, user, "dropout"),
        )
        for user in range(log.users)
    ]


def test_the_kernel_gives_the_modules_logits(log, network):
    vector = network.flatten()
    with torch.no_grad():
        expected = network.module(torch.from_numpy(log.x))[:, 1].numpy()
    assert expected.std() > 0
    np.testing.assert_allclose(din_scores(network, vector, log.x), expected, atol=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("batch_size", [2, 3])
def test_training_is_that_of_autograd(log, network, momentum, batch_size):
    training = LocalTraining(epochs=2, batch_size=batch_size, learning_rate=0.3, momentum=momentum)
    start = network.flatten()
    fast = train_together(network, start, jobs(log), training, 0.3)
    slow = train_sequential(network, start, jobs(log), training, 0.3)
    assert np.abs(slow).max() > 0.1
    np.testing.assert_allclose(fast, slow, atol=1e-5)


def test_rows_that_were_not_looked_up_are_exact_zeros(log, network):
    start = network.flatten()
    updates = train_dins(network, start, jobs(log), LocalTraining(1, 2), 0.1)
    rows = embedding_rows(network)
    for user, update in enumerate(updates):
        x = log.x[log.user == user]
        seen = np.zeros(log.items + 1, dtype=bool)
        seen[np.concatenate([x[:, 0], x[:, 2:].ravel()])] = True
        seen[0] = False  # "no item" is looked up by nobody
        moved = np.zeros(rows.max() + 1, dtype=bool)
        np.logical_or.at(moved, rows, update[: len(rows)] != 0)
        np.testing.assert_array_equal(moved[: log.items + 1], seen)


def test_sizes_are_checked():
    with pytest.raises(SettingError, match="embedding must be at least 1, got 0"):
        DinChoice(embedding=0)
