"""Whether the panel ranks clients as exact Shapley values do, which use test data.

Eight clients as in `fedmerit benchmark contribution`; the server takes the plain mean, so that all
methods see the same rounds. Judges use the data that they train on.
"""

from dataclasses import dataclass

import numpy as np

from checks.studies.panel.cells import Study
from fedmerit import Panel, Server
from fedmerit.behaviours import LocalData
from fedmerit.experiments.benchmark.contribution.benchmark import (
    HIDDEN,
    ROUNDS,
    TEST_SAMPLES,
    TRAINING,
)
from fedmerit.experiments.benchmark.contribution.game import PerceptronGame
from fedmerit.experiments.benchmark.contribution.holdings import SETUPS
from fedmerit.experiments.benchmark.statistics import spearman
from fedmerit.rng import stream
from fedmerit.scorers.shapley import exact_shapley, individual, leave_one_out
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.training.local import train_together
from fedmerit.simulation.training.models import build_model
from fedmerit.simulation.training.network import Network
from fedmerit.simulation.training.settings import TrainingJob

PAIRS = (1, 4)
WITH_TEST_DATA = {
    "shapley": exact_shapley,
    "individual": individual,
    "leave-one-out": leave_one_out,
}


@dataclass(frozen=True)
class WorthRow:
    """One method in one set-up (the cell) with one seed.

    `shapley` and `truth` are Spearman's rank correlations with the sums of exact Shapley values and
    with the order that the set-up made; `last` the last client's value relative to the mean of the
    others (with a rare class, it has it).
    """

    cell: str
    seed: int
    method: str
    shapley: float
    truth: float
    last: float
    code: str = ""


def run(cell: str, seed: int, data: Dataset) -> list[WorthRow]:
    held = SETUPS[cell](data, stream(seed, cell, "data"))
    shape = data.train_x.shape[1:]
    module = build_model(
        "mlp", shape, data.classes, stream(seed, "model"), hidden=HIDDEN, dropout=0.0
    )
    network = Network(module, shape)
    count = len(held.clients)
    names = [str(client) for client in range(count)]
    first = network.flatten()
    servers = {
        f"panel, {pairs} a round": Server(
            first, scorer=None, weighting="uniform", seed=seed, panel=Panel(pairs=pairs, rate=0)
        )
        for pairs in PAIRS
    }
    for method in ("merit", "cosine"):
        servers[method] = Server(
            first, scorer=method, weighting="uniform", seed=seed, layers=network.layers
        )
    chosen = stream(seed, "test").permutation(len(data.test_y))[:TEST_SAMPLES]
    values = {name: np.zeros(count) for name in WITH_TEST_DATA}
    model = first
    for number in range(1, ROUNDS + 1):
        jobs = [_job(seed, cell, number, client, d) for client, d in enumerate(held.clients)]
        updates = train_together(network, model, jobs, TRAINING, TRAINING.rate(number))
        game = PerceptronGame(network, model, updates, data.test_x[chosen], data.test_y[chosen])
        for name, value in WITH_TEST_DATA.items():
            values[name] += value(game, count)
        for server in servers.values():
            server.judge(updates=dict(zip(names, updates, strict=True)))
            server.combine()
            if server.rules.panel is not None:
                server.hear(
                    {
                        asked.key: _judge(network, asked.model, held.clients[int(asked.judge)])
                        for asked in server.candidates()
                    }
                )
            server.write()
        model = next(iter(servers.values())).model
    for name, server in servers.items():
        totals = server.contributions()
        found = [
            totals[client].score if server.rules.panel is None else totals[client].value
            for client in names
        ]
        values[name] = np.array(found, dtype=np.float64)
    return [
        WorthRow(
            cell,
            seed,
            name,
            spearman(found, values["shapley"]),
            spearman(found, held.truth),
            float(found[-1] / found[:-1].mean()),
        )
        for name, found in values.items()
    ]


def _judge(network: Network, model: np.ndarray, data: LocalData) -> float:
    return network.evaluate(model, data.x, data.y)[1]


def _job(seed: int, cell: str, number: int, client: int, data: LocalData) -> TrainingJob:
    name = (cell, "round", number, "client", client)
    return TrainingJob(data, stream(seed, *name, "batches"), stream(seed, *name, "dropout"))


STUDY = Study("worth", WorthRow, tuple(SETUPS), tuple(range(800, 810)), run)
