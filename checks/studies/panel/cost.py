"""What judging costs: models sent and seconds per round, against evaluating the new model only."""

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from checks.studies.panel.attacks import federation
from checks.studies.panel.cells import Study
from fedmerit import Panel
from fedmerit.experiments.benchmark.attacks.benchmark import FULL, PARTITIONS
from fedmerit.experiments.spec import plain_rules
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.federation import Federation

PAIRS = (1, 4)
ROUNDS = 5


class _Counting(Federation):
    """Counts the models that judges get."""

    asked = 0

    def judgement(self, client, candidate):  # type: ignore[no-untyped-def]
        self.asked += 1
        return super().judgement(client, candidate)


@dataclass(frozen=True)
class CostRow:
    """So many pairs per judge and round (the cell).

    `models` is how many are sent to a judge in a round, after its first, where plain evaluation
    sends one; `panel`, `plain` and `training` are median seconds of a round in one process: making,
    judging and reading all candidates, every client's evaluation of the new model alone, and all
    clients' training.
    """

    cell: str
    seed: int
    models: float
    panel: float
    plain: float
    training: float
    code: str = ""


def run(cell: str, seed: int, data: Dataset) -> list[CostRow]:
    rules = replace(plain_rules("uniform"), panel=Panel(pairs=int(cell.split()[0]), rate=0))
    config = replace(FULL, seed=seed, rounds=ROUNDS, partition=PARTITIONS["dirichlet"], rules=rules)
    made = federation(config, data, _Counting)
    assert isinstance(made, _Counting)
    state = made.start()
    panel, plain, training, models = [], [], [], []
    for _ in range(ROUNDS):
        made.asked = 0
        state, record = made.step(state, evaluate=False)
        models.append(made.asked / config.per_round)
        panel.append(record.seconds["panel"])
        training.append(record.seconds["training"])
        start = perf_counter()
        for client in range(config.users):
            made.task.evaluate(state.model, made._local_data(client, made.behaviours[client]))
        plain.append(perf_counter() - start)
    medians = (float(np.median(found)) for found in (models, panel, plain, training))
    return [CostRow(cell, seed, *medians)]


STUDY = Study("cost", CostRow, tuple(f"{pairs} a round" for pairs in PAIRS), (890,), run)
