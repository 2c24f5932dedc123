"""Run a benchmark cell by cell, so that it can be stopped and goes on where it was."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedmerit.errors import SettingError
from fedmerit.experiments.benchmark.base import Benchmark, Cell, Setting
from fedmerit.experiments.benchmark.files import code_of, read_rows, write, write_rows
from fedmerit.experiments.fingerprint import read_stamp

Key = tuple[int, Cell]


def run_benchmark(
    benchmark: Benchmark[Any],
    seeds: Sequence[int],
    setting: Setting,
    folder: Path,
    command: str,
    *,
    keep_old: bool = False,
) -> tuple[list[Any], list[Path]]:
    """Run what is not in the table of `folder`, or was decided by other code.

    Returns the rows of `seeds`, and the files that were written, those of each data set under a
    name of their own. The table also keeps what it had of other seeds; the page is about all seeds
    that are whole.
    """
    stem = benchmark.stem(setting.dataset.name)
    inputs = f"{setting.dataset.name}{' quick' if setting.quick else ''}"
    cells = benchmark.cells(setting.quick)
    known = _known(benchmark, folder, stem, inputs)
    done = {key: rows for key, rows in known.items() if key[1] in cells}
    wanted = [(seed, cell) for seed in seeds for cell in cells]
    table, note = folder / f"{stem}.csv", _note(folder, stem)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(inputs, encoding="utf-8")
    files: list[Path] = []
    try:
        for seed, cell in wanted:
            code = benchmark.cell_sources(cell).code.digest
            found = done.get((seed, cell), [])
            if found and (keep_old or all(code_of(row) == code for row in found)):
                for _ in range(benchmark.steps(setting.quick)):
                    setting.tick(f"seed {seed} is there")
                continue
            rows = benchmark.run_cell(cell, seed, setting)
            done[seed, cell] = [replace(row, code=code) for row in rows]
            write_rows(table, list(_ordered(done, cells)))
    finally:
        whole = {key: rows for key, rows in done.items() if all((key[0], c) in done for c in cells)}
        if whole:
            files = write(benchmark, list(_ordered(whole, cells)), folder, command, inputs)
            write_rows(table, list(_ordered(done, cells)))
    return [row for key in wanted for row in done[key]], files


def _known(benchmark: Benchmark[Any], folder: Path, stem: str, inputs: str) -> dict[Key, list[Any]]:
    """Return the rows in `folder` by seed and cell."""
    note, stamp = _note(folder, stem), read_stamp(folder / f"{stem}.md")
    if not note.is_file() and stamp is None:  # from before it was said what they were made with
        return {}
    before = note.read_text(encoding="utf-8") if note.is_file() or stamp is None else stamp.inputs
    if before != inputs:
        raise SettingError(
            f"{folder} must not mix runs on {before} and on {inputs}: choose another folder "
            "with --out"
        )
    done: dict[Key, list[Any]] = {}
    for row in read_rows(folder / f"{stem}.csv", benchmark.row):
        done.setdefault((row.seed, benchmark.cell_of(row)), []).append(row)
    return done


def _note(folder: Path, stem: str) -> Path:
    """Return the file that says what a table was made with while there is no page yet."""
    return folder / f"{stem}.kept" / "inputs"


def _ordered(done: dict[Key, list[Any]], cells: Sequence[Cell]) -> Iterator[Any]:
    """Yield rows by seed, those of a seed as a run without stops would write them."""
    places = {cell: place for place, cell in enumerate(cells)}
    for key in sorted(done, key=lambda key: (key[0], places.get(key[1], len(places)))):
        yield from done[key]
