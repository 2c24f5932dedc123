"""Low-rank adapters on a frozen network: only the adapters are trained and sent.

Source: Hu and others, "LoRA: low-rank adaptation of large language models" (ICLR 2022).
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fedmerit.behaviours import LocalData
from fedmerit.experiments.benchmark.models.tasks.images import CLASSES, LEAST, sampled
from fedmerit.experiments.benchmark.models.tasks.networks import perceptron
from fedmerit.experiments.benchmark.models.tasks.task import Task, Training, take
from fedmerit.experiments.benchmark.models.training import make_module, seeded, train
from fedmerit.rng import stream
from fedmerit.simulation.data.partition import dirichlet
from fedmerit.simulation.training.network import one_thread

CLIENTS = 10
RANK = 4
PUBLIC = 3000  # images on which the network was trained before the federation began


class Adapted(nn.Module):
    """A frozen linear layer plus a trained one of low rank, zero at first."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, frozen.in_features) / frozen.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(frozen.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Add both."""
        known: Tensor = self.frozen(x)
        return known + x @ self.down.T @ self.up.T


def adapt(module: nn.Module, rank: int) -> nn.Module:
    """Return the same layers, every linear one frozen and with an adapter."""
    assert isinstance(module, nn.Sequential)
    return nn.Sequential(
        *(Adapted(part, rank) if isinstance(part, nn.Linear) else part for part in module)
    )


def lora(seed: int, quick: bool, folder: Path | None) -> Task:
    """Return adapters of a network that knows upright images, for clients whose images lie."""
    count = 3000 if quick else 6000
    everything, held_out = sampled(seed, PUBLIC + count, folder, halved=False)
    public, mine = (
        take(everything, np.arange(PUBLIC)),
        _turned(take(everything, np.arange(PUBLIC, PUBLIC + count))),
    )
    base = make_module(lambda: perceptron(784, 256, 128, CLASSES), stream(seed, "models", "module"))
    rng = stream(seed, "models", "before")
    with one_thread(), seeded(rng):
        train(base, public, Training("adam", rate=1e-3, epochs=3), rng)
        module = adapt(base, RANK)
    parts = dirichlet(mine.y, CLIENTS, stream(seed, "models", "partition"), alpha=1.0, least=LEAST)
    trained = sum(p.numel() for p in module.parameters() if p.requires_grad)
    return Task(
        name="lora",
        about=f"adapters of rank {RANK} ({trained} parameters) on a frozen MLP 784-256-128-10 that "
        f"was trained on upright images, Fashion-MNIST turned, {CLIENTS} clients, Dirichlet 1",
        module=module,
        clients=tuple(take(mine, part) for part in parts),
        held_out=_turned(held_out),
        classes=CLASSES,
        training=Training("adam", rate=3e-3),
        rounds=10,
    )


def _turned(data: LocalData) -> LocalData:
    """Turn images by a right angle."""
    return LocalData(np.ascontiguousarray(np.rot90(data.x, axes=(2, 3))), data.y)
