"""Deep Interest Network (Zhou et al., KDD 2018) as a module, and its training by the kernel.

The embeddings of an item and of its category are looked up for the candidate and for every liked
item; a small net, the activation unit, weighs each liked item by how it relates to the candidate;
the weighted sum, the candidate and the context go through two layers with PReLU.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedmerit.kernels.networks.din import din_logits, train_din
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.config import DinChoice
from fedmerit.simulation.training.cores import on_every_core
from fedmerit.simulation.training.network import Network, Vector
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob, plan_batches

Floats = NDArray[np.float32]
_TABLES = 3  # items, categories, contexts


class Affine(nn.Module):
    """A linear layer whose weights lie as (inputs, units), as the kernel reads them."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(inputs, units).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(units).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        return x @ self.weight + self.bias


class Din(nn.Module):
    """DIN over rows of item, contexts, liked items; gives the logits of both labels, (n, 2).

    Parameters
    ----------
    category : (items + 1,) integers
        Category of each item; item 0 means none.
    contexts : int
        How many values the context columns have together: each column uses values of its own.
    choice : DinChoice
    columns : int
        Number of context columns.
    """

    def __init__(
        self,
        category: NDArray[np.integer],
        contexts: int,
        choice: DinChoice | None = None,
        columns: int = 1,
    ) -> None:
        super().__init__()
        choice = DinChoice() if choice is None else choice
        size, (wide, narrow) = choice.embedding, choice.hidden
        self.columns = columns
        self.category = np.asarray(category, dtype=np.int64)
        # Not a buffer: it is known to all and never learned.
        self._category = torch.from_numpy(self.category)
        rows = (len(category), int(self.category.max()) + 1, contexts)
        self.items, self.groups, self.places = (
            nn.Embedding(count, size, sparse=False) for count in rows
        )
        for table in (self.items, self.groups, self.places):
            nn.init.normal_(table.weight, std=choice.spread)
        self.unit = Affine(8 * size, choice.attention)
        self.unit_bend = nn.PReLU()
        self.unit_last = Affine(choice.attention, 1)
        self.first = Affine((4 + columns) * size, wide)
        self.first_bend = nn.PReLU()
        self.second = Affine(wide, narrow)
        self.second_bend = nn.PReLU()
        self.last = Affine(narrow, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map rows to logits."""
        x = x.long()
        query = self._embed(x[:, 0])
        liked = x[:, 1 + self.columns :]
        keys = self._embed(liked)
        queries = query.unsqueeze(1).expand_as(keys)
        seen = torch.cat([queries, keys, queries - keys, queries * keys], dim=-1)
        weights = self.unit_last(self.unit_bend(self.unit(seen)))
        history = (weights * keys * (liked != 0).unsqueeze(-1)).sum(dim=1)
        places = self.places(x[:, 1 : 1 + self.columns]).flatten(1)
        hidden = self.first_bend(self.first(torch.cat([query, history, places], dim=-1)))
        logit = self.last(self.second_bend(self.second(hidden)))
        return torch.cat([torch.zeros_like(logit), logit], dim=-1)

    def _embed(self, items: Tensor) -> Tensor:
        return torch.cat([self.items(items), self.groups(self._category[items])], dim=-1)

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """The sizes as the kernel takes them."""
        size = self.items.embedding_dim
        units, wide, narrow = (layer.bias.numel() for layer in (self.unit, self.first, self.second))
        return size, self.columns, units, wide, narrow


def build_din(log: ClickLog, choice: DinChoice, rng: np.random.Generator, columns: int = 1) -> Din:
    """Build the model for a log, with initial parameters drawn from `rng`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        return Din(log.category, log.contexts, choice, columns)


def embedding_rows(network: Network) -> NDArray[np.int64] | None:
    """Return the row of embeddings each parameter belongs to, (e,), for the first e parameters.

    None for models without embeddings. Those of a DIN come first.
    """
    if type(network.module) is not Din:
        return None
    shapes = list(network.shapes.values())[:_TABLES]
    rows = sum(shape[0] for shape in shapes)
    return np.repeat(np.arange(rows), shapes[0][1]).astype(np.int64)


def din_scores(network: Network, vector: Vector, x: NDArray[np.integer]) -> NDArray[np.float32]:
    """Return the logit of a click for each row of `x`, of the model `vector`."""
    module = _module(network)
    logits = np.empty(len(x), dtype=np.float32)
    items, groups, places, dense = _tables(network, vector)
    din_logits(
        items, groups, places, dense, module.shape, x.astype(np.int64), module.category, logits
    )
    return logits


def is_din(network: Network, training: LocalTraining) -> bool:
    """Say whether `train_dins` can do it: a DIN, trained by SGD."""
    return type(network.module) is Din and training.optimiser == "sgd"


def train_dins(
    network: Network,
    start: Vector,
    jobs: Sequence[TrainingJob],
    training: LocalTraining,
    rate: float,
) -> NDArray[np.float32]:
    """Train every job from `start` with learning rate `rate`; return the (k, d) updates.

    Each client works on its own rows of the embeddings only: all others stay exact zeros.
    """
    updates = np.zeros((len(jobs), network.parameters), dtype=np.float32)

    def train(row: int) -> None:
        _train(network, start, jobs[row], training, rate, updates[row])

    on_every_core(train, len(jobs))
    return updates


def _train(
    network: Network,
    start: Vector,
    job: TrainingJob,
    training: LocalTraining,
    rate: float,
    update: Vector,
) -> None:
    module = _module(network)
    items, groups, places, dense = _tables(network, start)
    x = job.data.x.astype(np.int64)
    liked = slice(1 + module.columns, None)
    # Row 0 stands for "no item" in the client's own table as well.
    mine = np.unique(np.concatenate([[0], x[:, 0], x[:, liked].ravel()]))
    x[:, 0] = np.searchsorted(mine, x[:, 0])
    x[:, liked] = np.searchsorted(mine, x[:, liked])
    my_groups, group_of = np.unique(module.category[mine], return_inverse=True)
    local = (items[mine], groups[my_groups], places.copy(), dense.copy())
    plan = plan_batches(len(job.data.y), training, job.batches)
    train_din(
        local[0],
        local[1],
        local[2],
        local[3],
        module.shape,
        x,
        group_of.astype(np.int64),
        job.data.y,
        plan.indices,
        plan.weights,
        np.float32(rate),
        np.float32(training.momentum),
    )
    changed = _tables(network, update)  # views
    changed[0][mine] = local[0] - items[mine]
    changed[1][my_groups] = local[1] - groups[my_groups]
    changed[2][:] = local[2] - places
    changed[3][:] = local[3] - dense


def _module(network: Network) -> Din:
    module = network.module
    assert isinstance(module, Din)
    return module


def _tables(network: Network, vector: Vector) -> tuple[Floats, Floats, Floats, Floats]:
    """View a vector as the three tables and the rest."""
    shapes = list(network.shapes.values())[:_TABLES]
    cuts = np.cumsum([rows * size for rows, size in shapes])
    items, groups, places, dense = np.split(vector, cuts)
    return items.reshape(shapes[0]), groups.reshape(shapes[1]), places.reshape(shapes[2]), dense
