"""The paper's model on the paper's optimiser, as fast as we can: a kernel, one client per thread.

Clients do not wait for each other here, so they need no common number of steps. The result does not
depend on the number of threads.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedmerit.kernels.networks.mlp import train_mlp
from fedmerit.simulation.training.cores import on_every_core
from fedmerit.simulation.training.models import Mlp
from fedmerit.simulation.training.network import Network, Vector
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob, plan_batches


def is_perceptron(network: Network, training: LocalTraining) -> bool:
    """Say whether `train_perceptrons` can do it: an MLP with one hidden layer, trained by SGD."""
    # A subclass may compute something else.
    is_mlp = type(network.module) is Mlp
    return is_mlp and len(network.shapes) == 4 and training.optimiser == "sgd"


def train_perceptrons(
    network: Network,
    start: Vector,
    jobs: Sequence[TrainingJob],
    training: LocalTraining,
    rate: float,
) -> NDArray[np.float32]:
    """Train every job from `start` with learning rate `rate`; return the (k, d) updates."""
    updates = np.empty((len(jobs), network.parameters), dtype=np.float32)

    def train(row: int) -> None:
        updates[row] = _train(network, start, jobs[row], training, rate) - start

    on_every_core(train, len(jobs))
    return updates


def _train(
    network: Network, start: Vector, job: TrainingJob, training: LocalTraining, rate: float
) -> Vector:
    (units, inputs), _, (classes, _), _ = network.shapes.values()
    pieces = np.split(start, np.cumsum(list(network.sizes.values()))[:-1])
    first = np.zeros((inputs + inputs % 2, units), dtype=np.float32)  # the kernel takes row pairs
    first[:inputs] = pieces[0].reshape(units, inputs).T
    first_bias, last_bias = pieces[1].copy(), pieces[3].copy()
    last = np.ascontiguousarray(pieces[2].reshape(classes, units).T)
    plan = plan_batches(len(job.data.y), training, job.batches)
    train_mlp(
        *(first, first_bias, last, last_bias),
        *(job.data.x.reshape(len(job.data.y), -1), job.data.y, plan.indices, plan.weights),
        *(_masks(network, job, plan.indices.shape, units), np.float32(rate)),
        np.float32(training.momentum),
    )
    return np.concatenate([first[:inputs].T.ravel(), first_bias, last.T.ravel(), last_bias])


def _masks(
    network: Network, job: TrainingJob, shape: tuple[int, ...], units: int
) -> NDArray[np.float32]:
    steps, width = shape
    if not network.dropouts:
        return np.ones((1, width, units), dtype=np.float32)
    masks = np.empty((steps, width, units), dtype=np.float32)
    network.dropouts[0].draw(job.dropout, masks)
    return masks
