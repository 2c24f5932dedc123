"""Whether a score ranks clients by what they contributed, and what it pays for little work.

Eight clients train an MLP; the server takes the plain mean of their updates, so that every score
sees the same rounds. Visitors are scored one at a time as a ninth client and are not aggregated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours import LocalData
from fedmerit.experiments.benchmark.base import SCORERS_MODULE, Benchmark, Cell, Setting, Table
from fedmerit.experiments.benchmark.contribution.game import PerceptronGame
from fedmerit.experiments.benchmark.contribution.holdings import SETUPS
from fedmerit.experiments.benchmark.contribution.page import draw, page, tables
from fedmerit.experiments.benchmark.rows import ContributionRow
from fedmerit.experiments.benchmark.statistics import spearman
from fedmerit.rng import stream
from fedmerit.scorers import (
    SCORERS,
    exact_shapley,
    individual,
    leave_one_out,
    make_scorer,
)
from fedmerit.server import RoundHistory
from fedmerit.server.history import View
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.training.local import train_together
from fedmerit.simulation.training.models import build_model
from fedmerit.simulation.training.network import Network, Vector
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob
from fedmerit.types import freeze, needs_of

ROUNDS, QUICK_ROUNDS = 10, 3
TEST_SAMPLES = 2_000
TRAINING = LocalTraining(epochs=2)
HIDDEN = 200
# Scorers that also score the visitors; each visitor costs a scoring of its own.
PAYING = ("cosine", "exact", "merit")
WITH_TEST_DATA = {
    "shapley": exact_shapley,
    "individual": individual,
    "leave-one-out": leave_one_out,
}
_MEMORY = 20  # clients whose previous reports merit remembers
Values = NDArray[np.float64]


class Contribution(Benchmark[ContributionRow]):
    """Rank correlation with the true order and with exact Shapley values of accuracy."""

    name = "contribution"
    first_seed, seeds = 300, 10
    datasets = ("mnist", "digits")
    chosen = (SCORERS_MODULE,)
    row = ContributionRow

    def __init__(self, training: LocalTraining = TRAINING) -> None:
        self.training = training

    def cells(self, quick: bool) -> list[Cell]:
        """Return the set-ups."""
        del quick
        return [(setup,) for setup in SETUPS]

    def cell_of(self, row: ContributionRow) -> Cell:
        """Return the set-up."""
        return (row.setup,)

    def steps(self, quick: bool) -> int:
        """Return the rounds."""
        return QUICK_ROUNDS if quick else ROUNDS

    def run_cell(self, cell: Cell, seed: int, setting: Setting) -> list[ContributionRow]:
        """Run a set-up once."""
        setup = str(cell[0])
        run = _Run(setup, seed, setting.dataset, self.training)
        for _ in range(self.steps(setting.quick)):
            run.step()
            setting.tick(f"{setup}, seed {seed}")
        return run.rows()

    def tables(self, rows: Sequence[ContributionRow]) -> list[Table]:
        """Return the mean over seeds, with spread."""
        return tables(rows)

    def page(self, rows: Sequence[ContributionRow]) -> str:
        """Describe settings and results."""
        return page(rows)

    def draw(self, rows: Sequence[ContributionRow], figure: Any) -> None:
        """Draw rank correlations by scorer and set-up."""
        draw(rows, figure)


@dataclass
class _Account:
    """One scorer's memory of one composition of the round, and the scores it has given."""

    history: RoundHistory
    scores: list[Values] = field(default_factory=list)


class _Run:
    """One federation in one set-up, scored in every way."""

    def __init__(self, setup: str, seed: int, dataset: Dataset, training: LocalTraining) -> None:
        self._setup, self._seed, self._training = setup, seed, training
        self._holdings = SETUPS[setup](dataset, stream(seed, setup, "data"))
        shape = dataset.train_x.shape[1:]
        module = build_model(
            "mlp", shape, dataset.classes, stream(seed, "model"), hidden=HIDDEN, dropout=0.0
        )
        self._network = Network(module, shape)
        self._model = freeze(self._network.flatten())
        self._last = np.zeros_like(self._model)
        self._round = 0
        visitors = () if setup == "rare class" else ("small", "lazy", "replayer")
        self._accounts = {
            (name, visitor): _Account(self._history(name))
            for name in SCORERS
            for visitor in ("", *(visitors if name in PAYING else ()))
        }
        self._worth = {name: np.zeros(len(self._holdings.clients)) for name in WITH_TEST_DATA}
        count = min(TEST_SAMPLES, len(dataset.test_y))
        chosen = stream(seed, "test").permutation(len(dataset.test_y))[:count]
        self._test = dataset.test_x[chosen], dataset.test_y[chosen]

    def step(self) -> None:
        """Run and score the next round."""
        self._round += 1
        held = [*self._holdings.clients, self._holdings.few]
        jobs = [self._job(client, data) for client, data in enumerate(held)]
        trained = train_together(
            self._network, self._model, jobs, self._training, self._training.rate(self._round)
        )
        updates, few = trained[:-1], trained[-1]
        noise = stream(self._seed, self._setup, self._round, "replayer")
        blur = noise.standard_normal(few.size, dtype=np.float32) * (0.1 * self._last.std())
        visitors = {"": None, "small": few, "lazy": self._last + few, "replayer": self._last + blur}
        for (name, visitor), account in self._accounts.items():
            self._score(name, account, updates, visitors[visitor])
        game = PerceptronGame(self._network, self._model, updates, *self._test)
        for name, value in WITH_TEST_DATA.items():
            self._worth[name] += value(game, len(updates))
        change = updates.mean(axis=0)
        self._last, self._model = change, freeze(self._model + change)
        for account in self._accounts.values():
            account.history = account.history.published(self._model)

    def rows(self) -> list[ContributionRow]:
        """Summarise the rounds so far."""
        paid = {key: np.mean(a.scores, axis=0) for key, a in self._accounts.items()}
        scores = {name: paid[name, ""] for name in SCORERS} | self._worth
        return [
            ContributionRow(
                setup=self._setup,
                seed=self._seed,
                scorer=name,
                rounds=self._round,
                truth=spearman(values, self._holdings.truth),
                shapley=spearman(values, self._worth["shapley"]),
                last=float(values[-1] / values[:-1].mean()),
                small=_relative(paid.get((name, "small"))),
                lazy=_relative(paid.get((name, "lazy"))),
                replayer=_relative(paid.get((name, "replayer"))),
            )
            for name, values in scores.items()
        ]

    def _history(self, scorer: str) -> RoundHistory:
        """Return the memory of a server with this scorer: it draws once which parameters count."""
        view = View.draw(
            len(self._model),
            self._network.layers,
            None,
            needs_of(make_scorer(scorer)).sample,
            stream(self._seed, "view"),
        )
        return RoundHistory(remembered=_MEMORY, view=view).published(self._model)

    def _job(self, client: int, data: LocalData) -> TrainingJob:
        name = (self._setup, "round", self._round, "client", client)
        return TrainingJob(
            data, stream(self._seed, *name, "batches"), stream(self._seed, *name, "dropout")
        )

    def _score(
        self, name: str, account: _Account, updates: NDArray[np.float32], visitor: Vector | None
    ) -> None:
        reports = updates if visitor is None else np.vstack([updates, visitor])
        names = [str(client) for client in range(len(reports))]
        scorer = make_scorer(name)
        needs = needs_of(scorer)
        positions = account.history.view.positions
        seen = reports if positions is None else reports[:, positions]
        inputs = account.history.inputs(names, seen, needs=needs)
        rng = stream(self._seed, self._setup, self._round, "scoring")
        result = scorer.score(inputs, rng)
        account.scores.append(result.scores)
        account.history = account.history.remembering(names, seen, result, needs)


def _relative(values: Values | None) -> float:
    """Return what the last client, a visitor, got relative to the mean of the others."""
    return nan if values is None else float(values[-1] / values[:-1].mean())
