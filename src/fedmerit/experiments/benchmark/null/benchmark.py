"""How often clients without private work are taken to have worked: the type-I error.

Real updates of a few rounds give the marginals; permuting a client's parameters, or drawing new
ones from them, makes a report that is independent of everybody and looks real one value at a time.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours import LocalData
from fedmerit.evidence.decisions import discoveries
from fedmerit.experiments.benchmark.base import Benchmark, Cell, Setting, Table
from fedmerit.experiments.benchmark.null.page import draw, page, tables
from fedmerit.experiments.benchmark.rows import NullRow
from fedmerit.rng import stream
from fedmerit.sampling import sample_parameters
from fedmerit.scorers import make_scorer
from fedmerit.server import RoundHistory
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.data.partition import label_shards
from fedmerit.simulation.training.local import train_together
from fedmerit.simulation.training.models import build_model
from fedmerit.simulation.training.network import Network
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob
from fedmerit.types import Contributions, RoundInputs, freeze

LEVELS = (0.05, 0.01, 0.001)
KINDS = ("permuted", "permuted in layers", "drawn", "replay + noise")
# Without public information, only what ignores the layer and the last update is independent.
NULL_FOR = {"conditional": KINDS, "exact": ("permuted", "drawn")}
CLIENTS, REAL_ROUNDS, PARAMETERS = 10, 4, 5_000
NULL_ROUNDS, QUICK_NULL_ROUNDS = 2_000, 40
TRAINING = LocalTraining(epochs=1)
_SHARDS_LEFT = 10  # the data is cut as for ten times the clients, as large as the paper's parts
Reports = NDArray[np.floating]


class Null(Benchmark[NullRow]):
    """Observed rates of every combination rule under the null hypothesis."""

    name = "null"
    first_seed, seeds = 400, 1
    datasets = ("mnist", "digits")
    chosen = tuple(make_scorer(name) for name in NULL_FOR)
    row = NullRow

    def cells(self, quick: bool) -> list[Cell]:
        """Return the one cell that there is."""
        del quick
        return [()]

    def cell_of(self, row: NullRow) -> Cell:
        """Return that cell."""
        del row
        return ()

    def steps(self, quick: bool) -> int:
        """Return the null rounds."""
        return QUICK_NULL_ROUNDS if quick else NULL_ROUNDS

    def run_cell(self, cell: Cell, seed: int, setting: Setting) -> list[NullRow]:
        """Simulate null rounds."""
        del cell
        real = list(real_rounds(seed, setting.dataset))
        rejected: Counter[tuple[str, str, str, float]] = Counter()
        trials: Counter[tuple[str, str, str, float]] = Counter()
        for number in range(self.steps(setting.quick)):
            rng = stream(seed, "null", number)
            kind = KINDS[number % len(KINDS)]
            # A replay needs a last update, which the first round does not have.
            usable = real[1:] if kind == "replay + noise" else real
            inputs = sample_parameters(usable[rng.integers(len(usable))], PARAMETERS, rng)
            fakes = null_reports(inputs, kind, rng)
            mixed = np.vstack([fakes[:1], np.asarray(inputs.updates)[1:]])
            for scorer in (name for name, kinds in NULL_FOR.items() if kind in kinds):
                alone = make_scorer(scorer).score(replace(inputs, updates=mixed), rng)
                nobody = make_scorer(scorer).score(replace(inputs, updates=fakes), rng)
                for level in LEVELS:
                    for rule, outcomes in decisions(alone, nobody, level).items():
                        rejected[scorer, kind, rule, level] += int(outcomes.sum())
                        trials[scorer, kind, rule, level] += outcomes.size
            setting.tick(f"{kind}, seed {seed}")
        return [NullRow(seed, *key, rejected[key], trials[key]) for key in trials]

    def tables(self, rows: Sequence[NullRow]) -> list[Table]:
        """Return observed rates with intervals."""
        return tables(rows)

    def page(self, rows: Sequence[NullRow]) -> str:
        """Describe settings and results."""
        return page(rows)

    def draw(self, rows: Sequence[NullRow], figure: Any) -> None:
        """Draw observed over nominal rates."""
        draw(rows, figure)


def decisions(
    alone: Contributions, nobody: Contributions, level: float
) -> dict[str, NDArray[np.bool_]]:
    """Return what every rule decides at `level`: True is a false acceptance.

    `alone` is a round whose first client is null; in `nobody` all are. Rules for clients are left
    out for scores without p-values.
    """
    assert nobody.z is not None, "the scores of this benchmark have a null distribution"
    assert alone.z is not None, "and so in every round"
    upper = np.triu_indices(len(nobody.scores), 1)
    pairs = nobody.z[upper]
    rules = {
        "pair, one null client": alone.z[0, 1:] > _quantile(level),
        "pair, all null": pairs > _quantile(level),
        "any join, all null": np.array([pairs.max() > _quantile(level / len(pairs))]),
    }
    if nobody.p_values is not None and alone.p_values is not None:
        rules |= {
            "client, one null client": alone.p_values[:1] <= level,
            "client, all null": nobody.p_values <= level,
            "any discovery, all null": np.array([discoveries(nobody.p_values, level).any()]),
        }
    return rules


def null_reports(inputs: RoundInputs, kind: str, rng: np.random.Generator) -> Reports:
    """Return reports without private work, with the marginals of the clients' own updates."""
    updates = np.asarray(inputs.updates)
    if kind == "drawn":
        return np.stack([rng.choice(row, row.size) for row in updates])
    if kind == "permuted":
        return rng.permuted(updates, axis=1)
    if kind == "permuted in layers":
        result = updates.copy()
        assert inputs.layers is not None
        for layer in np.unique(inputs.layers):
            here = inputs.layers == layer
            result[:, here] = rng.permuted(updates[:, here], axis=1)
        return result
    assert inputs.public is not None
    replay = inputs.public[0]
    noise = rng.standard_normal(updates.shape) * (0.3 * replay.std())
    blurred: Reports = (replay + noise).astype(updates.dtype)
    return blurred


def real_rounds(seed: int, dataset: Dataset) -> Iterator[RoundInputs]:
    """Train a few rounds of a federation with the paper's shards and yield what its server sees."""
    shape = dataset.train_x.shape[1:]
    network = Network(build_model("mlp", shape, dataset.classes, stream(seed, "model")), shape)
    parts = label_shards(dataset.train_y, CLIENTS * _SHARDS_LEFT, stream(seed, "partition"))
    model = freeze(network.flatten())
    history = RoundHistory(remembered=0).published(model)
    for number in range(1, REAL_ROUNDS + 1):
        jobs = [
            TrainingJob(
                LocalData(dataset.train_x[parts[client]], dataset.train_y[parts[client]]),
                stream(seed, "round", number, "client", client, "batches"),
                stream(seed, "round", number, "client", client, "dropout"),
            )
            for client in range(CLIENTS)
        ]
        updates = train_together(network, model, jobs, TRAINING, TRAINING.rate(number))
        names = [str(client) for client in range(CLIENTS)]
        yield history.inputs(names, updates, network.layers.astype(np.int64))
        model = freeze(model + updates.mean(axis=0))
        history = history.published(model)


def _quantile(level: float) -> float:
    return NormalDist().inv_cdf(1 - level)
