"""Cells of a study: what is in the file is not run again."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedmerit.experiments.benchmark.files import read_rows, write_rows
from fedmerit.experiments.fingerprint import Sources
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.data.datasets import Dataset

SOURCES = Sources.of("fedmerit.panel.hearing", "fedmerit.simulation.federation")


@dataclass(frozen=True)
class Study:
    """A question asked in several settings, `cells`, with several seeds.

    `run(cell, seed, dataset)` returns rows, dataclasses of one kind with the fields cell, seed and
    code: which code decided them.
    """

    name: str
    row: type
    cells: tuple[str, ...]
    seeds: tuple[int, ...]
    run: Callable[[str, int, Any], list[Any]]


def run_cells(
    study: Study, seeds: Sequence[int], data: Dataset | ClickLog, path: Path
) -> Iterator[str]:
    """Run what is missing in the file; yield a line after every cell."""
    rows = read_rows(path, study.row)
    code = SOURCES.code.digest
    known = {(row.cell, row.seed) for row in rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for cell in study.cells:
            if (cell, seed) in known:
                continue
            rows += [replace(row, code=code) for row in study.run(cell, seed, data)]
            write_rows(path, rows)
            yield f"{study.name}: {cell}, seed {seed}, {len(rows)} rows"
