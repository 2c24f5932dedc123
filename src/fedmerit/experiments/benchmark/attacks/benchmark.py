"""Every behaviour against every score: who is told apart, what it earns, how soon it is flagged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import nan
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.aggregators.weighting import weights
from fedmerit.behaviours import BEHAVIOURS, Assignment, Behaviour, Honest
from fedmerit.evidence.watch import Watch
from fedmerit.experiments.benchmark.attacks.page import draw, page, tables
from fedmerit.experiments.benchmark.base import (
    BEHAVIOURS_MODULE,
    SCORERS_MODULE,
    Benchmark,
    Cell,
    Setting,
    Table,
    Tick,
)
from fedmerit.experiments.benchmark.panel import Panel
from fedmerit.experiments.benchmark.rows import AttackRow
from fedmerit.experiments.benchmark.statistics import mean, roc_auc
from fedmerit.experiments.fingerprint import Sources
from fedmerit.experiments.kept import LIBRARIES, kept
from fedmerit.experiments.runner import plain_sources
from fedmerit.experiments.spec import plain_rules
from fedmerit.rng import stream
from fedmerit.scorers import SCORERS
from fedmerit.server import RoundRules
from fedmerit.server.judging import excluded
from fedmerit.simulation.config import FederationConfig, Partition
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.training.settings import LocalTraining
from fedmerit.types import Contributions

SHARE = 0.3
WARM_UP = 2  # rounds that are not counted
FLAGGING = ("conditional", "merit")
_PARTS = 100  # the data is cut as for the paper's 100 users
PARTITIONS = {"shards": Partition("shards"), "dirichlet": Partition("dirichlet", alpha=1.0)}
FULL = FederationConfig(users=20, per_round=20, rounds=10, training=LocalTraining(epochs=2))
QUICK = replace(FULL, users=10, per_round=10, rounds=6)
_KINDS = {kind().label: kind() for kind in BEHAVIOURS.values()}


class Attacks(Benchmark[AttackRow]):
    """ROC AUC, weight, reward and flags of every behaviour."""

    name = "attacks"
    first_seed, seeds = 500, 3
    datasets = ("mnist", "digits")
    chosen = (BEHAVIOURS_MODULE, SCORERS_MODULE)
    row = AttackRow

    def cells(self, quick: bool) -> list[Cell]:
        """Return every partition with every behaviour; honest is the clean run."""
        del quick
        return list(product(PARTITIONS, _KINDS))

    def cell_of(self, row: AttackRow) -> Cell:
        """Return partition and behaviour."""
        return row.partition, row.behaviour

    def cell_sources(self, cell: Cell) -> Sources:
        """Return what decides one behaviour."""
        kind = _KINDS.get(str(cell[1]))
        chosen = (BEHAVIOURS_MODULE,) if kind is None else (kind,)
        return Sources.of(Attacks, SCORERS_MODULE, *chosen, closed=self.sources.closed)

    def steps(self, quick: bool) -> int:
        """Return the rounds, with the default and with plain averaging."""
        return 2 * (QUICK if quick else FULL).rounds

    def run_cell(self, cell: Cell, seed: int, setting: Setting) -> list[AttackRow]:
        """Run a federation with the default, and with plain averaging."""
        partition, label = map(str, cell)
        behaviour, panel = _KINDS[label], Panel()
        attacked = replace(
            QUICK if setting.quick else FULL,
            seed=seed,
            partition=PARTITIONS[partition],
            behaviours=Assignment(((SHARE, behaviour),)),
        )
        accuracy, bad = run_federation(
            replace(attacked, rules=RoundRules(panel)), setting.dataset, behaviour, setting.tick
        )
        fedavg = plain_accuracy(replace(attacked, rules=plain_rules("size")), behaviour, setting)
        return [
            AttackRow(
                partition=partition,
                behaviour=label,
                seed=seed,
                scorer=scorer,
                rides=not behaviour.trains,
                accuracy=accuracy,
                fedavg=fedavg,
                **vars(judge(panel.heard[scorer], bad, flags=scorer in FLAGGING)),
            )
            for scorer in SCORERS
        ]

    def tables(self, rows: Sequence[AttackRow]) -> list[Table]:
        """Return merit's results by behaviour, and ROC AUC and reward by scorer."""
        return tables(rows)

    def page(self, rows: Sequence[AttackRow]) -> str:
        """Describe settings and results."""
        return page(rows)

    def draw(self, rows: Sequence[AttackRow], figure: Any) -> None:
        """Draw heat maps of ROC AUC and reward."""
        draw(rows, figure)


@dataclass(frozen=True)
class Judgement:
    """What a scorer makes of the dishonest clients of a run; see `AttackRow`."""

    auc: float
    weight: float
    reward: float
    honest_paid: float
    flagged: float
    honest_flagged: float
    watched: float
    honest_watched: float
    flagged_after: float


def judge(results: Sequence[Contributions], bad: Sequence[bool], *, flags: bool) -> Judgement:
    """Compare dishonest with honest clients, from the third round on."""
    dishonest = np.array(bad)
    counted = results[WARM_UP:]
    scores = np.mean([r.scores for r in counted], axis=0)
    pay = np.mean([np.where(r.eligible, np.maximum(r.scores, 0), 0) for r in counted], axis=0)
    # A score that flags keeps clients out of FedAvg's mean; the others weigh by a softmax.
    share = np.mean([~excluded(r) if flags else weights(r.scores) for r in counted], axis=0)
    auc = roc_auc(scores[~dishonest].tolist(), scores[dishonest].tolist())
    marked = np.mean([r.flagged for r in counted], axis=0)
    after = _rounds_until_flagged(results) if flags else [nan] * len(scores)
    caught = np.array([not np.isnan(value) for value in after], dtype=float)
    if not flags:
        marked, caught = np.full(len(scores), nan), np.full(len(scores), nan)
    found = [value for value in np.array(after)[dishonest].tolist() if value == value]
    return Judgement(
        auc=auc,
        weight=_ratio(share, dishonest),
        reward=_ratio(pay, dishonest),
        honest_paid=float((pay[~dishonest] > 0).mean()),
        flagged=mean(marked[dishonest].tolist()),
        honest_flagged=mean(marked[~dishonest].tolist()),
        watched=mean(caught[dishonest].tolist()),
        honest_watched=mean(caught[~dishonest].tolist()),
        flagged_after=median(found) if found else nan,
    )


def plain_accuracy(config: FederationConfig, behaviour: Behaviour, setting: Setting) -> float:
    """Run a federation without scores, or read what it came to when nothing has changed since."""

    def run() -> dict[str, float]:
        accuracy, _ = run_federation(config, setting.dataset, behaviour, setting.tick)
        return {"accuracy": accuracy}

    code = plain_sources(run_federation, behaviour).code.digest
    inputs = repr((code, LIBRARIES, setting.dataset.digest, config))
    return float(kept(setting.kept, inputs, run)["accuracy"])


def run_federation(
    config: FederationConfig, dataset: Dataset, behaviour: Behaviour, tick: Tick
) -> tuple[float, list[bool]]:
    """Run a federation; return its last accuracy and who is dishonest."""
    parts = config.partition.split(dataset.train_y, _PARTS, stream(config.seed, "partition"))
    federation = Federation(config, dataset, parts=parts[: config.users])
    state, accuracy = federation.start(), nan
    for _ in range(config.rounds):
        state, record = federation.step(state)
        accuracy = record.metrics["accuracy"]
        tick(f"{behaviour.label}, seed {config.seed}")
    # Some behaviours are honest ones with other data, so by type.
    return accuracy, [type(b) is not Honest for b in federation.behaviours]


def _rounds_until_flagged(results: Sequence[Contributions]) -> list[float]:
    """Return the round in which each client is first flagged over rounds; NaN if never."""
    watch = Watch()
    names = [str(client) for client in range(len(results[0].scores))]
    first = dict.fromkeys(names, nan)
    for number, result in enumerate(results, start=1):
        watch.observe(names, result)
        for verdict in watch.verdicts():
            if verdict.flagged and first[verdict.client] != first[verdict.client]:
                first[verdict.client] = float(number)
    return [first[name] for name in names]


def _ratio(values: NDArray[np.float64], bad: NDArray[np.bool_]) -> float:
    if not bad.any():
        return nan
    honest = float(values[~bad].mean())
    return float(values[bad].mean()) / honest if honest != 0 else nan
