"""The MNIST federation with its free riders sent home: ``... mnist_without_riders FOLDER``.

Figure 2 replaces users by free riders, and the data of these users are gone with them: accuracy
falls even if no rider gets any weight. What the riders themselves cost is seen against the run
without them: the same users, draws and batches, and those who would ride do not take part. FOLDER
is the `--out` of ``fedmerit reproduce mnist-free-riders``; runs are kept beside its own, and
continued.
"""

import sys
from dataclasses import replace
from pathlib import Path

from fedmerit.behaviours import Honest
from fedmerit.experiments.runner import Cell, prepare, read_outcome, sources_of, write_outcomes
from fedmerit.experiments.spec import find_experiment
from fedmerit.simulation.data.datasets import Dataset, load
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.run import run

NAME = "mnist-without-riders"
LINE, PERCENT = "fedmerit", (10, 20, 30)


class WithoutRiders(Federation):
    """A federation in which only honest users answer."""

    def participants(self, number: int) -> list[int]:
        """Return the honest ones of those who are drawn."""
        drawn = super().participants(number)
        return [client for client in drawn if type(self.behaviours[client]) is Honest]


def main(folder: Path, data: Dataset) -> None:
    """Run what is missing and write the table."""
    experiment = find_experiment("mnist-free-riders")
    line = next(line for line in experiment.lines if line.name == LINE)
    outcomes = []
    for seed in experiment.seeds:
        for point in experiment.points:
            if point.value not in PERCENT:
                continue
            cell = Cell(line, point, seed)
            config = experiment.config(line, point, seed)
            target = cell.folder(folder / NAME)
            code = prepare(target, sources_of(cell).code.digest)
            run(WithoutRiders(config, data), folder=target, resume=True)
            outcomes.append(replace(read_outcome(cell, target, config.rounds), code=code))
            print(f"{point.value:g} %, seed {seed}: {outcomes[-1].accuracy:.4f}", flush=True)
    write_outcomes(folder / NAME / f"{NAME}.csv", outcomes)


if __name__ == "__main__":
    main(Path(sys.argv[1]), load("mnist"))
