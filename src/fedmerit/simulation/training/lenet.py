"""LeNet-5 in a kernel of its own, one client per core: see `kernels/networks/lenet.py`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedmerit.kernels.networks.lenet import train_lenet
from fedmerit.simulation.training.cores import on_every_core
from fedmerit.simulation.training.models import LeNet5
from fedmerit.simulation.training.network import Network, Vector
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob, plan_batches


def is_lenet(network: Network) -> bool:
    """Say whether `train_lenets` can do it."""
    # A subclass may compute something else.
    return type(network.module) is LeNet5


def train_lenets(
    network: Network,
    start: Vector,
    jobs: Sequence[TrainingJob],
    training: LocalTraining,
    rate: float,
) -> NDArray[np.float32]:
    """Train every job from `start` with learning rate `rate`; return the (k, d) updates."""
    updates = np.empty((len(jobs), network.parameters), dtype=np.float32)
    *_, (classes,) = network.shapes.values()
    turned = _turn(network, start, to_kernel=True)

    def train(row: int) -> None:
        job, parameters = jobs[row], turned.copy()
        plan = plan_batches(len(job.data.y), training, job.batches)
        train_lenet(
            *(parameters, job.data.x, job.data.y, classes, plan.indices, plan.weights),
            *(training.optimiser == "adam", rate, training.momentum),
        )
        updates[row] = _turn(network, parameters, to_kernel=False) - start

    on_every_core(train, len(jobs))
    return updates


def _turn(network: Network, vector: Vector, *, to_kernel: bool) -> Vector:
    """Turn the matrices of a flat vector: PyTorch's are (units, inputs), the kernel's the other."""
    pieces = np.split(vector, np.cumsum(list(network.sizes.values()))[:-1])
    turned = []
    for piece, shape in zip(pieces, network.shapes.values(), strict=True):
        if len(shape) == 2:
            piece = piece.reshape(shape if to_kernel else shape[::-1]).T.ravel()
        turned.append(piece)
    return np.concatenate(turned)
