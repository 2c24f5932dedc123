"""Tasks on scikit-learn's tables: logistic regressions with very few parameters, and small MLPs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fedmerit.behaviours import LocalData
from fedmerit.experiments.benchmark.models.tasks.networks import perceptron
from fedmerit.experiments.benchmark.models.tasks.task import MakeTask, Task, Training, take
from fedmerit.experiments.benchmark.models.training import make_module
from fedmerit.rng import stream
from fedmerit.simulation.data.partition import dirichlet, iid

HELD_OUT = 0.25  # of the rows


class OneLogit(nn.Module):
    """A logistic regression with one weight per column: the other class has the logit zero."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.linear = nn.Linear(columns, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return two logits."""
        logit = self.linear(x)
        return torch.cat([torch.zeros_like(logit), logit], dim=1)


def table(name: str, seed: int) -> tuple[LocalData, LocalData, int]:
    """Return rows to train on, rows to hold out (both with columns of mean 0), and the classes."""
    # Imported here: scikit-learn takes a second to load.
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    x, y = bunch.data.astype(np.float64), bunch.target.astype(np.int64)
    x = ((x - x.mean(0)) / np.maximum(x.std(0), 1e-6)).astype(np.float32)
    order = stream(seed, "models", "table").permutation(len(y))
    cut = round(HELD_OUT * len(y))
    train, held_out = (LocalData(x[part], y[part]) for part in (order[cut:], order[:cut]))
    return train, held_out, len(bunch.target_names)


def _make(
    name: str,
    data: str,
    about: str,
    module: Callable[[], nn.Module],
    training: Training,
    *,
    clients: int = 6,
    alpha: float | None = None,
    rounds: int = 12,
) -> MakeTask:
    """Return what makes a task; clients are IID unless `alpha` is given."""

    def make(seed: int, quick: bool, folder: Path | None) -> Task:
        del quick, folder  # the tables are small and always there
        train, held_out, classes = table(data, seed)
        rng = stream(seed, "models", "partition")
        parts = (
            iid(len(train.y), clients, rng)
            if alpha is None
            else dirichlet(train.y, clients, rng, alpha=alpha, least=10)
        )
        split = "IID" if alpha is None else f"Dirichlet {alpha:g}"
        return Task(
            name=name,
            about=f"{about}, scikit-learn's {data}, {clients} clients, {split}",
            module=make_module(module, stream(seed, "models", "module")),
            clients=tuple(take(train, part) for part in parts),
            held_out=held_out,
            classes=classes,
            training=training,
            rounds=rounds,
        )

    return make


TABLES: dict[str, MakeTask] = {
    "logistic-31": _make(
        "logistic-31",
        "breast_cancer",
        "logistic regression with 31 parameters",
        lambda: OneLogit(30),
        Training(rate=0.05, batch=16),
    ),
    "logistic-62": _make(
        "logistic-62",
        "breast_cancer",
        "logistic regression with 62 parameters",
        lambda: nn.Linear(30, 2),
        Training(rate=0.05, batch=16),
    ),
    "logistic-wine": _make(
        "logistic-wine",
        "wine",
        "logistic regression with 42 parameters",
        lambda: nn.Linear(13, 3),
        Training(rate=0.05, batch=8),
    ),
    "logistic-digits": _make(
        "logistic-digits",
        "digits",
        "logistic regression with 650 parameters",
        lambda: nn.Linear(64, 10),
        Training(rate=0.05, batch=16),
    ),
    "mlp-cancer": _make(
        "mlp-cancer",
        "breast_cancer",
        "MLP 30-16-2",
        lambda: perceptron(30, 16, 2),
        Training(rate=0.05, batch=16),
        clients=8,
        alpha=1.0,
    ),
    "mlp-digits": _make(
        "mlp-digits",
        "digits",
        "MLP 64-32-10",
        lambda: perceptron(64, 32, 10),
        Training(rate=0.1, batch=16, epochs=2),
        clients=10,
        alpha=1.0,
        rounds=15,
    ),
}
