"""After a refactoring: ``python -m checks.pages.again mnist-noise fedavg fed-pca-published``.

Of each line of a table of ``fedmerit reproduce``, runs that are drawn by chance are repeated. If
all of them are the same in every digit, the rows of the line get the fingerprint of the code as it
is; if one is not, the line stays as it was, and the differences are shown. So it is with the cells
of a benchmark (``models``, ``attacks``, ...), which are one line, and are written with their page.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from checks.pages.origin import cell_of, experiment_of
from checks.pages.results import FOLDER
from fedmerit.cli.names import BENCHMARKS
from fedmerit.experiments.benchmark.base import Benchmark, Cell, RowT, Setting
from fedmerit.experiments.benchmark.files import read_rows, write, write_rows
from fedmerit.experiments.benchmark.models.benchmark import Models, Plan, ordered, row_code
from fedmerit.experiments.benchmark.models.cells import Bench
from fedmerit.experiments.benchmark.registry import find_benchmark
from fedmerit.experiments.benchmark.rows import ModelRow
from fedmerit.experiments.fingerprint import read_stamp
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
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.data.catalogue import load
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.data.datasets import load as load_dataset
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


def differences(before: Any, after: Any) -> list[str]:
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


def again_models(count: int, seed: int, folder: Path = FOLDER) -> int:
    """Repeat `count` cells of the benchmark of models; return whether some are not the same."""
    path = folder / "models.csv"
    rows = ordered(read_rows(path, ModelRow))
    wrong = 0
    for place in sorted(stream(seed, "models").choice(len(rows), count, replace=False)):
        row = rows[place]
        found = Bench(row.task, row.seed, quick=row.quick).run(row.behaviour, row.share)
        # As it would be read again: tables have fewer digits.
        changes = differences(row, _read_again(found))
        cell = f"{row.task}, {row.behaviour}, {row.share:.0%}, seed {row.seed}"
        print(f"{cell}: {'; '.join(changes) or 'the same'}", flush=True)
        wrong += bool(changes)
    if not wrong:
        known = [replace(row, code=row_code(row.task, row.behaviour)) for row in rows]
        seeds = sorted({row.seed for row in rows})
        write(Models(), known, folder, Plan(seeds).command)
    return wrong


def again_cells(name: str, data: Dataset, count: int, seed: int, folder: Path = FOLDER) -> int:
    """Repeat `count` cells of another benchmark; return how many are not the same."""
    benchmark = find_benchmark(name)
    assert isinstance(benchmark, Benchmark), f"{name} is not run cell by cell"
    stem = benchmark.stem(data.name)
    page = folder / f"{stem}.md"
    stamp, command = read_stamp(page), re.search(r"`(fedmerit benchmark .*?)`", page.read_text())
    assert stamp is not None, f"{page} does not say what it was made with"
    assert command is not None, f"{page} does not say how it was made"
    rows = read_rows(folder / f"{stem}.csv", benchmark.row)
    cells: dict[tuple[int, Cell], list[Any]] = {}
    for row in rows:
        cells.setdefault((row.seed, benchmark.cell_of(row)), []).append(row)
    places, wrong = list(cells), 0
    with tempfile.TemporaryDirectory() as kept:
        setting = Setting(data, stamp.inputs.endswith(" quick"), lambda _: None, Path(kept))
        for place in sorted(stream(seed, name).choice(len(places), count, replace=False)):
            number, cell = places[place]
            found = benchmark.run_cell(cell, number, setting)
            pairs = zip(cells[number, cell], map(_read_again, found), strict=True)
            changes = [change for pair in pairs for change in differences(*pair)]
            print(f"{cell}, seed {number}: {'; '.join(changes) or 'the same'}", flush=True)
            wrong += bool(changes)
    if not wrong:
        known = [replace(row, code=benchmark.row_code(row)) for row in rows]
        write(benchmark, known, folder, command[1], stamp.inputs)
    return wrong


def _read_again(row: RowT) -> RowT:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.csv"
        write_rows(path, [row])
        return read_rows(path, type(row))[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("lines", nargs="*")
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--count", type=int, default=2, help="runs of each line")
    parser.add_argument("--seed", type=int, default=0, help="which runs are drawn")
    told = parser.parse_args()
    if told.table == "models":
        return again_models(told.count, told.seed)
    if told.table in BENCHMARKS:
        return again_cells(told.table, load_dataset(told.dataset), told.count, told.seed)
    if not told.lines:
        parser.error(f"name the lines of {told.table} to repeat: fedmerit, fedavg, ...")
    return again(told.table, told.lines, load(told.dataset, None), count=told.count, seed=told.seed)


if __name__ == "__main__":
    sys.exit(main())
