"""What a federation learns: data and who holds it, a model, and how the model is judged.

The round loop knows nothing else of images or click logs. A task says which parameters scores look
at: all of them, or, for models with embeddings, those that every client trains.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedmerit.behaviours import LocalData
from fedmerit.errors import SettingError
from fedmerit.rng import stream
from fedmerit.simulation.clicks.log import TEST, TRAIN, ClickLog
from fedmerit.simulation.config import DinChoice, FederationConfig
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.data.partition import Indices, natural
from fedmerit.simulation.metrics import auc, log_loss
from fedmerit.simulation.training.din import build_din, din_scores, embedding_rows
from fedmerit.simulation.training.models import build_model
from fedmerit.simulation.training.network import Network, Vector

# A client without two samples has no order to shuffle and no agreement to show.
_LEAST_ROWS = 2
# Judging a model on more rows than this changes its AUC in the third decimal and takes most of the
# time of a round.
_EVALUATED = 10_000


@dataclass(frozen=True)
class Task:
    """A learning task, split over users.

    Attributes
    ----------
    name : str
        Of the data.
    metric : str
        "accuracy" or "auc".
    network : Network
    x, y : training samples
    parts : sequence of index arrays
        Each user's samples.
    test_x, test_y : what the model is judged on
    sizes : tuple of int or None
        Where inputs are indices: how many values each column has, which everybody knows.
    rows : (e,) int64 or None
        Where the first e parameters are embeddings: the row that each belongs to.
    """

    name: str
    metric: str
    network: Network
    x: NDArray[Any]
    y: NDArray[np.int64]
    parts: Sequence[Indices]
    test_x: NDArray[Any]
    test_y: NDArray[np.int64]
    sizes: tuple[int, ...] | None = None
    rows: NDArray[np.int64] | None = None

    def local_data(self, user: int) -> LocalData:
        """Return a user's samples."""
        part = self.parts[user]
        return LocalData(self.x[part], self.y[part], self.sizes)

    def evaluate(self, model: Vector, data: LocalData | None = None) -> dict[str, float]:
        """Judge a model, by default on the test data: the metric first, then the loss."""
        x, y = (self.test_x, self.test_y) if data is None else (data.x, data.y)
        if self.metric == "auc":
            logits = din_scores(self.network, model, x)
            return {"auc": auc(logits, y), "loss": log_loss(logits, y)}
        loss, accuracy = self.network.evaluate(model, x, y)
        return {"accuracy": accuracy, "loss": loss}

    @property
    def dense(self) -> Indices | None:
        """The parameters that every client trains; None if all are."""
        if self.rows is None:
            return None
        return np.arange(len(self.rows), self.network.parameters, dtype=np.int64)


def make_task(
    config: FederationConfig,
    data: Dataset | ClickLog,
    parts: Sequence[Indices] | None = None,
    module: nn.Module | None = None,
) -> Task:
    """Put together what `config` says about `data`; `parts` and `module` instead, if given."""
    if isinstance(data, ClickLog):
        task = _click_task(config, data, parts, module)
    else:
        task = _image_task(config, data, parts, module)
    if len(task.parts) != config.users:
        raise SettingError(f"parts must be one per user, {config.users}, got {len(task.parts)}")
    return task


def click_clients(log: ClickLog) -> list[Indices]:
    """Return the training rows of every user who has enough of them to take part."""
    train = log.rows(TRAIN)
    parts = [train[part] for part in natural(log.user[train])]
    return [part for part in parts if len(part) >= _LEAST_ROWS]


def _image_task(
    config: FederationConfig,
    data: Dataset,
    parts: Sequence[Indices] | None,
    module: nn.Module | None,
) -> Task:
    if parts is None:
        rng = stream(config.seed, "partition")
        parts = config.partition.split(data.train_y, config.users, rng)
    shape = data.train_x.shape[1:]
    if module is None:
        if isinstance(config.model, DinChoice):
            raise SettingError(f"a DIN needs a click log, got {data.name}")
        module = build_model(
            config.model.name,
            shape,
            data.classes,
            stream(config.seed, "model"),
            hidden=config.model.hidden,
            dropout=config.model.dropout,
        )
    network = Network(module, shape)
    return Task(
        data.name,
        "accuracy",
        network,
        *(data.train_x, data.train_y, parts, data.test_x, data.test_y),
    )


def _click_task(
    config: FederationConfig,
    log: ClickLog,
    parts: Sequence[Indices] | None,
    module: nn.Module | None,
) -> Task:
    if parts is None:
        able = click_clients(log)
        if config.users > len(able):
            raise SettingError(
                f"users must be at most {len(able)}, those of {log.name} with enough training "
                f"rows, got {config.users}"
            )
        drawn = stream(config.seed, "partition").permutation(len(able))[: config.users]
        parts = [able[user] for user in np.sort(drawn)]
    if module is None:
        if not isinstance(config.model, DinChoice):
            raise SettingError(f"{log.name} is a click log and needs model din")
        module = build_din(log, config.model, stream(config.seed, "model"))
    network = Network(module, log.x.shape[1:])
    test = log.rows(TEST)
    # The same rows in every run, whatever its seed.
    test = np.sort(stream(0, "evaluated rows").permutation(test)[:_EVALUATED])
    return Task(
        log.name,
        "auc",
        network,
        *(log.x, log.label, parts, log.x[test], log.label[test]),
        sizes=log.sizes,
        rows=embedding_rows(network),
    )
