"""`fedmerit benchmark models`: cell by cell, continued where it was stopped."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedmerit.cli.output import errors, progress
from fedmerit.errors import SettingError

if TYPE_CHECKING:
    from fedmerit.experiments.benchmark.rows import ModelRow


def run_models(
    seeds: Sequence[int],
    out: Path,
    folder: Path | None,
    quick: bool,
    tasks: Sequence[str],
    behaviours: Sequence[str],
    shares: Sequence[float],
    keep_old: bool,
) -> tuple[list["ModelRow"], list[Path]]:
    """Run what is not in the table yet, or was decided by other code.

    Returns its rows and the files that were written.
    """
    from fedmerit.experiments.benchmark.files import read_rows, write, write_rows
    from fedmerit.experiments.benchmark.models.benchmark import (
        Models,
        Plan,
        key,
        ordered,
        run_plan,
    )
    from fedmerit.experiments.benchmark.rows import ModelRow

    kept = out / f"{Models.name}.kept"
    told = (tuple(tasks), tuple(behaviours), tuple(shares) or Plan.shares)
    plan = Plan(seeds, quick, *told, folder, kept, keep_old)
    cells = plan.cells()
    table = out / f"{Models.name}.csv"
    found = {key(row): row for row in read_rows(table, ModelRow)}
    if any(row.quick != quick for row in found.values()):
        raise SettingError(
            f"{table} must not mix quick and full runs, got {'full' if quick else 'quick'} ones in "
            "it: choose another folder with --out"
        )
    out.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    try:
        with progress() as bar:
            steps = bar.add_task("cells", total=len(cells), status="")
            for row in run_plan(
                plan,
                list(found.values()),
                lambda told: bar.update(steps, advance=1, status=told),
                lambda told: errors.print(told, soft_wrap=True, highlight=False, markup=False),
            ):
                found[key(row)] = row
                write_rows(table, list(found.values()))
    finally:
        rows = ordered(list(found.values()))
        if rows:
            files = write(Models(), rows, out, plan.command)
    return [row for row in rows if key(row) in cells], files
