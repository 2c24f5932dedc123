"""All clients of a round train together: their parameters are rows of one matrix."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmerit.kernels.networks.lenet import BETA1, BETA2, EPSILON
from fedmerit.simulation.training.gradients import AddGradient, StackBatch, stack_gradient
from fedmerit.simulation.training.network import DropoutSite, Network, Vector, one_thread
from fedmerit.simulation.training.settings import BatchPlan, LocalTraining, TrainingJob, plan_all

# Parameters and velocity of the clients that train at the same time should fit into a processor's
# shared cache with room to spare: for the paper's MLP, five clients were fastest of 1 to 20.
STACK_BYTES = 6_500_000

Step = Callable[[StackBatch, int], None]


def train_stacked(
    network: Network,
    start: Vector,
    jobs: Sequence[TrainingJob],
    training: LocalTraining,
    rate: float,
) -> NDArray[np.float32]:
    """Train every job from `start` with learning rate `rate`; return the (k, d) updates."""
    updates = np.empty((len(jobs), network.parameters), dtype=np.float32)
    plans = plan_all(jobs, training)
    # Longest first: a client that is done leaves the end of the stack, the others stay in place.
    order = sorted(range(len(jobs)), key=lambda row: -plans[row].steps)
    size = max(1, STACK_BYTES // (2 * 4 * network.parameters))
    with torch.no_grad(), one_thread():
        for first in range(0, len(order), size):
            rows = order[first : first + size]
            stack = _Stack(network, start, [jobs[i] for i in rows], [plans[i] for i in rows])
            stack.train(training, rate)
            updates[rows] = stack.parameters.numpy() - start
    return updates


class _Stack:
    """Clients that step together, from the one with the most steps to the one with the fewest."""

    def __init__(
        self,
        network: Network,
        start: Vector,
        jobs: Sequence[TrainingJob],
        plans: Sequence[BatchPlan],
    ) -> None:
        self.network = network
        self.parameters = torch.from_numpy(np.tile(start, (len(jobs), 1)))
        self._steps = [plan.steps for plan in plans]
        self._widths = [plan.indices.shape[1] for plan in plans]
        self._dropout = [job.dropout for job in jobs]
        self._x = torch.from_numpy(np.concatenate([job.data.x for job in jobs]))
        self._y = torch.from_numpy(np.concatenate([job.data.y for job in jobs]))
        shape = (len(jobs), self._steps[0], max(self._widths))
        indices, weights = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        offset = 0
        for row, (job, plan) in enumerate(zip(jobs, plans, strict=True)):
            filled = (row, slice(plan.steps), slice(self._widths[row]))
            indices[filled] = plan.indices + offset
            weights[filled] = plan.weights
            offset += len(job.data.y)
        self._indices, self._weights = torch.from_numpy(indices), torch.from_numpy(weights)

    def train(self, training: LocalTraining, rate: float) -> None:
        """Run every step of every client, in place."""
        buffers = [torch.zeros_like(self.parameters) for _ in range(_buffers(training))]
        done = 0
        for active in range(len(self._steps), 0, -1):
            here, rest = self.parameters[:active], [buffer[:active] for buffer in buffers]
            add = stack_gradient(self.network, here, rest[0])
            step = _optimiser_step(training, rate, here, rest, add)
            for number in range(done, self._steps[active - 1]):
                step(self._batch(active, number), number + 1)
            done = self._steps[active - 1]

    def _batch(self, active: int, number: int) -> StackBatch:
        indices = self._indices[:active, number]
        x = self._x.index_select(0, indices.reshape(-1))
        return StackBatch(
            x=x.view(*indices.shape, *x.shape[1:]),
            y=self._y[indices],
            weights=self._weights[:active, number],
            masks={site.name: self._mask(site, active) for site in self.network.dropouts},
        )

    def _mask(self, site: DropoutSite, active: int) -> Tensor:
        drawn = np.zeros((active, max(self._widths), *site.shape), dtype=np.float32)
        for row in range(active):
            site.draw(self._dropout[row], drawn[row, : self._widths[row]])
        return torch.from_numpy(drawn)


def _buffers(training: LocalTraining) -> int:
    return 1 if training.optimiser == "sgd" else 3


def _optimiser_step(
    training: LocalTraining,
    rate: float,
    parameters: Tensor,
    buffers: Sequence[Tensor],
    add_gradient: AddGradient,
) -> Step:
    def sgd(batch: StackBatch, number: int) -> None:
        del number
        add_gradient(batch, training.momentum)
        parameters.add_(buffers[0], alpha=-rate)

    def adam(batch: StackBatch, number: int) -> None:
        gradient, first, second = buffers
        add_gradient(batch, 0.0)
        first.lerp_(gradient, 1 - BETA1)
        second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        scale = second.sqrt().div_((1 - BETA2**number) ** 0.5).add_(EPSILON)
        parameters.addcdiv_(first, scale, value=-rate / (1 - BETA1**number))

    return sgd if training.optimiser == "sgd" else adam
