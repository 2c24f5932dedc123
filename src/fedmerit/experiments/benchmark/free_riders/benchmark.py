"""The MNIST half of the free-rider benchmark of TU Wien, in our simulator.

Source of the settings: LukasXperiaZ/FL-free-rider-benchmark on GitHub. A client that was flagged
once stays flagged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np

from fedmerit.behaviours import Assignment, Honest, parse_behaviour
from fedmerit.evidence.watch import Watch
from fedmerit.experiments.benchmark.base import Benchmark, Cell, Setting, Table, Tick
from fedmerit.experiments.benchmark.free_riders.page import draw, page, tables
from fedmerit.experiments.benchmark.panel import Panel
from fedmerit.experiments.benchmark.rows import FreeRiderRow
from fedmerit.experiments.benchmark.statistics import precision_recall
from fedmerit.rng import stream
from fedmerit.server import RoundRules
from fedmerit.simulation.config import FederationConfig, ModelChoice, Partition
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.data.partition import Indices
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.training.settings import LocalTraining
from fedmerit.types import Contributions

ATTACKS = ("uniform-model", "advanced-delta", "adaptive", "advanced-rider")
SHARES = (0.1, 0.3, 0.7)
TRAINS = 0.8  # of each client's part; the rest is its own test set
NONE = "none"


@dataclass(frozen=True)
class Settings:
    """The frozen settings; `share` of each client's data is used, 1 in a full run."""

    clients: tuple[int, ...] = (10, 100)
    rounds: int = 20
    shares: tuple[float, ...] = SHARES
    share: float = 1.0

    def cells(self) -> list[tuple[int, str, float]]:
        """Return every cell: number of clients, attack, share of riders; clean runs first."""
        attacked = [(a, s) for a in ATTACKS for s in self.shares]
        return [(n, a, s) for n in self.clients for a, s in [(NONE, 0.0), *attacked]]


FULL = Settings()
QUICK = Settings(clients=(10,), rounds=5, share=0.1)


class FreeRiders(Benchmark[FreeRiderRow]):
    """Precision and recall per cell, and false alarms in clean runs."""

    name = "free-riders"
    first_seed, seeds = 600, 3
    chosen = tuple(parse_behaviour(attack) for attack in ATTACKS)
    row = FreeRiderRow

    def cells(self, quick: bool) -> list[Cell]:
        """Return numbers of clients, attacks and shares of riders; clean runs first."""
        return list((QUICK if quick else FULL).cells())

    def cell_of(self, row: FreeRiderRow) -> Cell:
        """Return the number of clients, the attack and the share of riders."""
        return row.clients, row.attack, row.riders / row.clients

    def steps(self, quick: bool) -> int:
        """Return the rounds."""
        return (QUICK if quick else FULL).rounds

    def run_cell(self, cell: Cell, seed: int, setting: Setting) -> list[FreeRiderRow]:
        """Run one cell once; return one row per detector."""
        settings = QUICK if setting.quick else FULL
        clients, attack, share = next(c for c in settings.cells() if c == cell)
        return run_settings(settings, setting.dataset, clients, attack, share, seed, setting.tick)

    def tables(self, rows: Sequence[FreeRiderRow]) -> list[Table]:
        """Return precision and recall per cell."""
        return tables(rows)

    def page(self, rows: Sequence[FreeRiderRow]) -> str:
        """Describe settings and results."""
        return page(rows)

    def draw(self, rows: Sequence[FreeRiderRow], figure: Any) -> None:
        """Draw precision and recall per cell."""
        draw(rows, figure)


def configure(clients: int, attack: str, share: float, seed: int) -> FederationConfig:
    """Return the federation of one run."""
    behaviours = Assignment() if attack == NONE else Assignment(((share, parse_behaviour(attack)),))
    return FederationConfig(
        users=clients,
        per_round=clients,
        seed=seed,
        partition=Partition("dirichlet", alpha=1.0),
        model=ModelChoice("lenet5"),
        training=LocalTraining(epochs=1, batch_size=32, optimiser="adam", learning_rate=0.001),
        behaviours=behaviours,
    )


def run_settings(
    settings: Settings,
    dataset: Dataset,
    clients: int,
    attack: str,
    share: float,
    seed: int,
    tick: Tick,
) -> list[FreeRiderRow]:
    """Run one cell once; return one row per detector."""
    panel = Panel(heard={"merit": []})
    rules = RoundRules(panel)
    config = replace(configure(clients, attack, share, seed), rules=rules)
    parts = config.partition.split(dataset.train_y, clients, stream(seed, "partition"))
    kept = [
        _keep(part, TRAINS * settings.share, stream(seed, "kept", client))
        for client, part in enumerate(parts)
    ]
    federation = Federation(config, dataset, parts=kept)
    state, accuracy = federation.start(), nan
    for left in reversed(range(settings.rounds)):
        state, record = federation.step(state, evaluate=left == 0)
        accuracy = record.metrics.get("accuracy", nan)
        tick(f"{clients} clients, {share:.0%} {attack}, seed {seed}")
    riders = {c for c, b in enumerate(federation.behaviours) if type(b) is not Honest}
    rows = []
    for detector, found in detect(panel.heard["merit"]).items():
        precision, recall = precision_recall(found, riders)
        rows.append(
            FreeRiderRow(
                clients=clients,
                attack=attack,
                riders=len(riders),
                seed=seed,
                detector=detector,
                rounds=settings.rounds,
                precision=precision,
                recall=recall,
                false_alarms=len(found - riders),
                accuracy=accuracy,
            )
        )
    return rows


def detect(results: Sequence[Contributions]) -> dict[str, set[int]]:
    """Return whom each detector flags in the end: flagged once stays flagged."""
    watch = Watch()
    names = [str(client) for client in range(len(results[0].scores))]
    by_round: set[int] = set()
    watched: set[int] = set()
    for result in results:
        by_round |= {int(client) for client in np.flatnonzero(result.flagged)}
        watch.observe(names, result)
        watched |= {int(v.client) for v in watch.verdicts() if v.flagged}
    return {"round": by_round, "watch": watched}


def _keep(part: Indices, share: float, rng: np.random.Generator) -> Indices:
    return np.sort(rng.permutation(part)[: max(1, round(share * len(part)))])
