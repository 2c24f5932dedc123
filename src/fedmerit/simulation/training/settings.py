"""Local training: its settings, and the batches of every step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours import LocalData
from fedmerit.errors import UnknownNameError
from fedmerit.validation import check_count, check_number

OPTIMISERS = ("adam", "sgd")


@dataclass(frozen=True)
class LocalTraining:
    """How a client trains in one round; the defaults are the paper's for MNIST.

    Attributes
    ----------
    epochs, batch_size : int
    optimiser : str
        "sgd" with `momentum`, or "adam" with PyTorch's usual moments. Its state starts afresh in
        every round.
    learning_rate : float
        In round 1.
    decay : float
        Factor on the learning rate from one round to the next.
    """

    epochs: int = 5
    batch_size: int = 10
    optimiser: str = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.5
    decay: float = 1.0

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs, least=1)
        check_count("batch_size", self.batch_size, least=1)
        check_number("learning_rate", self.learning_rate, above=0)
        check_number("momentum", self.momentum, least=0, below=1)
        check_number("decay", self.decay, above=0, most=1)
        if self.optimiser not in OPTIMISERS:
            raise UnknownNameError.of("optimiser", self.optimiser, OPTIMISERS)

    def rate(self, round_: int) -> float:
        """Return the learning rate of a round (from 1)."""
        return self.learning_rate * self.decay ** (round_ - 1)


@dataclass(frozen=True)
class TrainingJob:
    """One client's part in a round: its data and its own streams of batch order and dropout."""

    data: LocalData
    batches: np.random.Generator
    dropout: np.random.Generator


@dataclass(frozen=True)
class BatchPlan:
    """Every step of one client, short batches padded.

    Attributes
    ----------
    indices : (steps, width) int64
        Which samples a step sees; padding points at sample 0.
    weights : (steps, width) float32
        Share of a sample in its step's mean loss; 0 for padding.
    """

    indices: NDArray[np.int64]
    weights: NDArray[np.float32]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.indices)


def plan_batches(samples: int, training: LocalTraining, rng: np.random.Generator) -> BatchPlan:
    """Shuffle the samples anew in every epoch and cut them into batches."""
    width = min(training.batch_size, samples)
    per_epoch = -(-samples // width)
    indices = np.zeros((training.epochs, per_epoch * width), dtype=np.int64)
    for epoch in indices:
        epoch[:samples] = rng.permutation(samples)
    counted = np.zeros((per_epoch, width), dtype=np.float32)
    counted.flat[:samples] = 1
    weights = np.tile(counted / counted.sum(axis=1, keepdims=True), (training.epochs, 1))
    return BatchPlan(indices.reshape(-1, width), weights)


def plan_all(jobs: Sequence[TrainingJob], training: LocalTraining) -> list[BatchPlan]:
    """Plan the batches of every job."""
    return [plan_batches(len(job.data.y), training, job.batches) for job in jobs]
