"""What claimed sizes are worth: ``python -m checks.studies.sizes`` writes docs/results/sizes.*.

Two federations of the models benchmark, one with equal clients and one with very unequal ones; all
honest, or 30 % of the clients claim ten times what they hold and train honestly. Rows that the code
as it is has made already are not made again. ``--seeds 20 21 --out FOLDER`` is for development.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from checks import ROOT
from fedmerit.behaviours import Honest, InflatedSize
from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.files import read_rows, write_rows
from fedmerit.experiments.benchmark.models.federation import accuracy, federate, make_cast
from fedmerit.experiments.benchmark.models.tasks import images
from fedmerit.experiments.benchmark.models.tasks.task import State, StateLike, Task
from fedmerit.experiments.benchmark.models.training import sent_state
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.server import Server
from fedmerit.server.rules import SIZES

SEEDS = (710, 711, 712)
TASKS = {"identical": images.identical, "unequal": images.unequal}
BEHAVIOURS = {behaviour.label: behaviour for behaviour in (Honest(), InflatedSize(10))}

_SETTINGS = """\
Tasks *identical* (twelve clients with 400 images each) and *unequal* (twelve clients with 50 to
3,000 images) of the models benchmark, a `fedmerit.Server` with its default settings but for
`sizes`. 30 % of the clients claim ten times what they hold, or would: in rows *honest* nobody does,
and *their* shares are those of the same clients. *Data* is their share of all images, *weight*
their share of the weights, mean over rounds; *gain* is one by the other. *Accuracy* is held-out,
mean after the last three rounds. *FedAvg's weights* is the share of rounds in which every weight
is, to the bit, that of FedAvg by the sizes that clients claim; *flagged* counts reports that were
accused. Means over seeds."""


@dataclass(frozen=True)
class Row:
    """One federation: see the page."""

    task: str
    behaviour: str
    sizes: str
    seed: int
    clients: int
    liars: int
    rounds: int
    data: float
    weight: float
    accuracy: float
    as_fedavg: float
    flagged: float
    code: str


class Watched:
    """A server, and what it made of the sizes that were claimed."""

    def __init__(self, task: Task, rule: str, seed: int, drawn: Sequence[int]) -> None:
        self._server = Server(sent_state(task.module), seed=seed, sizes=rule)
        self._drawn = drawn
        self.weights: list[float] = []
        self.as_fedavg: list[bool] = []
        self.flagged: list[bool] = []

    def settle(self, state: StateLike, sent: dict[str, State], sizes: dict[str, int]) -> State:
        """Settle one round."""
        del state  # the server has it
        result = self._server.settle(sent, sizes)
        names, total = list(sent), sum(sizes.values())
        self.weights.append(sum(result.weights[names[client]] for client in self._drawn))
        self.as_fedavg.append(all(result.weights[name] == sizes[name] / total for name in names))
        self.flagged += [flag is not None and flag.accuses for flag in result.flags.values()]
        return {name: np.asarray(value) for name, value in self._server.model.items()}


def measure(name: str, label: str, rule: str, seed: int) -> Row:
    """Run one federation."""
    task = TASKS[name](seed, False, None)
    cast = make_cast(task, BEHAVIOURS[label], seed)
    watched = Watched(task, rule, seed, cast.drawn)
    states = federate(task, cast, seed, watched.settle)
    return Row(
        task=name,
        behaviour=label,
        sizes=rule,
        seed=seed,
        clients=len(task.clients),
        liars=len(cast.liars),
        rounds=task.rounds,
        data=sum(task.sizes[client] for client in cast.drawn) / sum(task.sizes),
        weight=float(np.mean(watched.weights)),
        accuracy=accuracy(task, states),
        as_fedavg=float(np.mean(watched.as_fedavg)),
        flagged=float(np.mean(watched.flagged)),
        code=SOURCES.code.digest,
    )


SOURCES = Sources.of(measure)


def table_of(rows: Sequence[Row]) -> Table:
    """Return means over seeds."""
    cells = dict.fromkeys((row.task, row.behaviour, row.sizes) for row in rows)
    lines = []
    for cell in cells:
        here = [row for row in rows if (row.task, row.behaviour, row.sizes) == cell]
        data, weight, *others = (
            float(np.mean([getattr(row, column) for row in here]))
            for column in ("data", "weight", "accuracy", "as_fedavg", "flagged")
        )
        lines.append((*cell, data, weight, weight / data, *others))
    columns = ("data", "weight", "gain", "accuracy", "FedAvg's weights", "flagged")
    return Table("Sizes", ("task", "clients", "sizes", *columns), tuple(lines))


def main(seeds: Sequence[int], folder: Path) -> None:
    """Make the rows that are missing, keep each at once, and write the page."""
    table = folder / "sizes.csv"
    known = {
        (row.task, row.behaviour, row.sizes, row.seed): row
        for row in read_rows(table, Row)
        if row.code == SOURCES.code.digest
    }
    cells = list(product(TASKS, BEHAVIOURS, SIZES, seeds))
    for cell in cells:
        if cell not in known:
            known[cell] = measure(*cell)
            write_rows(table, list(known.values()))
        print(*cell, f"weight {known[cell].weight:.3f}", flush=True)
    rows = [known[cell] for cell in cells]
    write_rows(table, rows)
    text = "\n\n".join(
        [
            "# Claimed data sizes",
            "Written by `python -m checks.studies.sizes`; every row is in [sizes.csv](sizes.csv).",
            f"{_SETTINGS} Seeds: {', '.join(map(str, seeds))}.",
            table_of(rows).markdown(),
        ]
    )
    write_page(folder / "sizes.md", text, SOURCES)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    told = parser.parse_args()
    main(told.seeds, told.out)
