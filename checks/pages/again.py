"""After a refactoring: ``python -m checks.pages.again mnist-noise fedavg fed-pca-published``.

Of each line of a table of ``fedmerit reproduce``, runs that are drawn by chance are repeated. If
all of them are the same in every digit, the rows of the line get the fingerprint of the code as it
is; if one is not, the line stays as it was, and the differences are shown.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from checks.pages.origin import cell_of, experiment_of
from checks.pages.results import FOLDER
from fedmerit.experiments.runner import (
    Outcome,
    fitted,
    read_outcome,
    read_outcomes,
    sources_of,
    write_outcomes,
)
from fedmerit.experiments.spec import Experiment
from fedmerit.rng import stream
from fedmerit.simulation.catalogue import load
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.datasets import Dataset
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.run import run


def repeated(experiment: Experiment, data: Dataset | ClickLog, outcome: Outcome) -> Outcome:
    """Run again what gave an outcome."""
    cell = cell_of(experiment, outcome.line, outcome.value, outcome.seed)
    assert cell is not None, "only rows that can be run again are drawn"
    chosen = fitted(experiment, data)
    config = replace(chosen.config(cell.line, cell.point, cell.seed), rounds=outcome.rounds)
    with tempfile.TemporaryDirectory() as folder:
        run(Federation(config, data), folder=Path(folder))
        return read_outcome(cell, Path(folder), outcome.rounds)


def differences(before: Outcome, after: Outcome) -> list[str]:
    """Return what is not the same, but for the code."""
    pairs = zip(asdict(replace(before, code="")).items(), asdict(after).values(), strict=True)
    # A NaN is not itself, but the same.
    return [
        f"{name} {old} is now {new}"
        for (name, old), new in pairs
        if old != new and (old == old or new == new)
    ]


def again(
    name: str,
    lines: Sequence[str],
    data: Dataset | ClickLog,
    *,
    count: int = 2,
    seed: int = 0,
    folder: Path = FOLDER,
) -> int:
    """Repeat `count` runs of each line; return how many lines are not the same."""
    path = folder / f"{name}.csv"
    experiment, rows = experiment_of(name), read_outcomes(path)
    assert experiment is not None, f"{name} is not a table of fedmerit reproduce"
    wrong = 0
    for line in lines:
        mine = [i for i, row in enumerate(rows) if row.line == line]
        drawn = stream(seed, name, line).choice(mine, min(count, len(mine)), replace=False)
        found: list[str] = []
        for row in (rows[i] for i in sorted(drawn)):
            changes = differences(row, repeated(experiment, data, row))
            print(f"{line}, {row.value:g}, seed {row.seed}: {'; '.join(changes) or 'the same'}")
            found += changes
        wrong += bool(found)
        for i in () if found else mine:
            cell = cell_of(experiment, line, rows[i].value, rows[i].seed)
            assert cell is not None, "the same line was just run"
            rows[i] = replace(rows[i], code=sources_of(cell).code.digest)
        write_outcomes(path, rows)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("lines", nargs="+")
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--count", type=int, default=2, help="runs of each line")
    parser.add_argument("--seed", type=int, default=0, help="which runs are drawn")
    told = parser.parse_args()
    return again(told.table, told.lines, load(told.dataset, None), count=told.count, seed=told.seed)


if __name__ == "__main__":
    sys.exit(main())
