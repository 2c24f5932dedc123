"""The local training of a round's clients, all together, by the fastest way that fits."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedmerit.simulation.training.din import is_din, train_dins
from fedmerit.simulation.training.lenet import is_lenet, train_lenets
from fedmerit.simulation.training.network import Network, Vector
from fedmerit.simulation.training.perceptron import is_perceptron, train_perceptrons
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob
from fedmerit.simulation.training.stacked import train_stacked


def train_together(
    network: Network,
    start: Vector,
    jobs: Sequence[TrainingJob],
    training: LocalTraining,
    rate: float,
) -> NDArray[np.float32]:
    """Train every job from `start` with learning rate `rate`; return the (k, d) updates."""
    train = train_stacked
    if is_perceptron(network, training):
        train = train_perceptrons
    elif is_din(network, training):
        train = train_dins
    elif is_lenet(network):
        train = train_lenets
    return train(network, start, jobs, training, rate)
