"""What a client of the models benchmark does: a plain PyTorch loop from the global state."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from fedmerit.behaviours import LocalData
from fedmerit.experiments.benchmark.models.tasks.task import State, StateLike, Task, Training
from fedmerit.simulation.training.network import one_thread

_EVALUATION_BATCH = 1000


def sent_state(module: nn.Module) -> State:
    """Return what a client sends: all that is trained, and running statistics, as copies."""
    frozen = {name for name, value in module.named_parameters() if not value.requires_grad}
    return {
        name: value.detach().numpy().copy()
        for name, value in module.state_dict().items()
        if name not in frozen
    }


@lru_cache(maxsize=1)
def _working_copy(task: Task) -> nn.Module:
    return deepcopy(task.module)


def loaded(task: Task, state: StateLike) -> nn.Module:
    """Return a module with `state` in it, the same one each time: `state` is all that changes."""
    module = _working_copy(task)
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
    module.load_state_dict(tensors, strict=False)
    return module


def train_client(task: Task, state: StateLike, data: LocalData, rng: np.random.Generator) -> State:
    """Train from `state` on `data`; return the client's state. `rng` draws the batches."""
    with one_thread():
        module = loaded(task, state)
        train(module, data, task.training, rng)
    return sent_state(module)


def train(module: nn.Module, data: LocalData, training: Training, rng: np.random.Generator) -> None:
    """Train a module in place."""
    module.train()
    chosen = [value for value in module.parameters() if value.requires_grad]
    optimiser: torch.optim.Optimizer
    if training.optimiser == "sgd":
        optimiser = torch.optim.SGD(chosen, lr=training.rate, momentum=training.momentum)
    else:
        optimiser = torch.optim.Adam(chosen, lr=training.rate)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    for _ in range(training.epochs):
        order = torch.from_numpy(rng.permutation(len(data.y)))
        for batch in torch.split(order, training.batch):
            optimiser.zero_grad()
            torch.autograd.backward(_loss(module(x[batch]), y[batch]))
            optimiser.step()


def evaluate(task: Task, state: StateLike) -> float:
    """Return the share of held-out labels that the model with `state` predicts."""
    with one_thread(), torch.no_grad():
        module = loaded(task, state).eval()
        x, y = torch.from_numpy(task.held_out.x), torch.from_numpy(task.held_out.y)
        hits = 0
        for start in range(0, len(y), _EVALUATION_BATCH):
            part = slice(start, start + _EVALUATION_BATCH)
            hits += int((module(x[part]).argmax(-1) == y[part]).sum())
    return hits / task.held_out.y.size


def make_module(make: Callable[[], nn.Module], rng: np.random.Generator) -> nn.Module:
    """Return a new module whose first values come from `rng`."""
    with seeded(rng):
        return make()


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[None]:
    """Let PyTorch draw from a seed of `rng`, and leave its global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        yield


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
