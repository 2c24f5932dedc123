"""Who is said to harm the model without a reason: honest clients over a hundred rounds."""

from dataclasses import dataclass, replace
from math import exp

from checks.studies.panel.attacks import federation
from checks.studies.panel.cells import Study
from fedmerit import Panel
from fedmerit.experiments.benchmark.attacks.benchmark import FULL, PARTITIONS
from fedmerit.experiments.spec import plain_rules
from fedmerit.panel.harm import harmful
from fedmerit.simulation.data.datasets import Dataset

ROUNDS = 100
RATES = (0.01, 0.05)


@dataclass(frozen=True)
class FlagRow:
    """Honest clients on one partition (the cell) with one seed.

    `named_1` and `named_5` are how many of the 20 were ever said to harm at rates of 1 and 5 %;
    `largest` the largest e-value that any of them ever had.
    """

    cell: str
    seed: int
    rounds: int
    named_1: int
    named_5: int
    largest: float
    code: str = ""


def run(cell: str, seed: int, data: Dataset) -> list[FlagRow]:
    config = replace(
        FULL,
        seed=seed,
        rounds=ROUNDS,
        partition=PARTITIONS[cell],
        rules=replace(plain_rules("uniform"), panel=Panel(pairs=1, rate=0)),
    )
    made = federation(config, data)
    state = made.start()
    named: dict[float, set[str]] = {rate: set() for rate in RATES}
    largest = 0.0
    for _ in range(ROUNDS):
        state, _ = made.step(state, evaluate=False)
        wealth = state.server.book.against
        largest = max(largest, *wealth.values())
        for rate in RATES:
            named[rate] |= set(harmful(wealth, rate))
    counts = [len(named[rate]) for rate in RATES]
    return [FlagRow(cell, seed, ROUNDS, *counts, exp(min(largest, 700.0)))]


STUDY = Study("flags", FlagRow, ("shards", "dirichlet"), (860, 861, 862), run)
