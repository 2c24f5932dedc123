"""One client after the other, as plain PyTorch: the reference for `stacked`, and its fallback.

It is slower, but takes modules that `torch.func` cannot stack.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedmerit.simulation.training.network import Network, Vector, one_thread
from fedmerit.simulation.training.settings import BatchPlan, LocalTraining, TrainingJob, plan_all


def train_sequential(
    network: Network,
    start: Vector,
    jobs: Sequence[TrainingJob],
    training: LocalTraining,
    rate: float,
) -> NDArray[np.float32]:
    """Train every job from `start` with learning rate `rate`; return the (k, d) updates."""
    updates = np.empty((len(jobs), network.parameters), dtype=np.float32)
    with one_thread():
        for row, (job, plan) in enumerate(zip(jobs, plan_all(jobs, training), strict=True)):
            network.load(start)
            _train(network, job, plan, training, rate)
            updates[row] = network.flatten() - start
    return updates


def _train(
    network: Network, job: TrainingJob, plan: BatchPlan, training: LocalTraining, rate: float
) -> None:
    module = network.module.train()
    optimiser: torch.optim.Optimizer
    if training.optimiser == "sgd":
        optimiser = torch.optim.SGD(module.parameters(), lr=rate, momentum=training.momentum)
    else:
        optimiser = torch.optim.Adam(module.parameters(), lr=rate)
    x, y = torch.from_numpy(job.data.x), torch.from_numpy(job.data.y)
    masks = dict(module.named_buffers())
    for indices, weights in zip(plan.indices, plan.weights, strict=True):
        for site in network.dropouts:
            drawn = np.empty((len(indices), *site.shape), dtype=np.float32)
            site.draw(job.dropout, drawn)
            owner = module.get_submodule(site.name.removesuffix(".mask"))
            owner.mask = torch.from_numpy(drawn)
        optimiser.zero_grad()
        losses = nn.functional.cross_entropy(module(x[indices]), y[indices], reduction="none")
        torch.autograd.backward((losses * torch.from_numpy(weights)).sum())
        optimiser.step()
    for name, mask in masks.items():
        module.get_submodule(name.rpartition(".")[0]).mask = mask
