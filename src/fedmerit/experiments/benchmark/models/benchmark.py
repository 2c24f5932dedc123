"""Does the default hold on models that nobody tuned it on? Cell by cell, so that it can go on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedmerit.behaviours import parse_behaviour
from fedmerit.errors import DataError, UnknownNameError
from fedmerit.experiments.benchmark.base import BEHAVIOURS_MODULE, Results, Table, Tick
from fedmerit.experiments.benchmark.models.cells import BEHAVIOURS, QUICK, Bench
from fedmerit.experiments.benchmark.models.federation import SHARE
from fedmerit.experiments.benchmark.models.page import draw, page, tables
from fedmerit.experiments.benchmark.models.tasks.registry import TASKS
from fedmerit.experiments.benchmark.rows import ModelRow
from fedmerit.experiments.fingerprint import Sources
from fedmerit.validation import check_number

Cell = tuple[str, int, str, float]  # task, seed, behaviour, share
TASKS_MODULE = "fedmerit.experiments.benchmark.models.tasks.registry"
# The cache of federations decides nothing.
CLOSED = ("fedmerit.experiments.benchmark.models.baselines",)


class Models(Results[ModelRow]):
    """Accuracy, weight, pay and flags of every behaviour on every task."""

    name = "models"
    first_seed, seeds = 700, 3
    row = ModelRow

    @property
    def sources(self) -> Sources:
        """All tasks and behaviours."""
        return Sources.of(Bench, TASKS_MODULE, BEHAVIOURS_MODULE, closed=CLOSED)

    def row_code(self, row: ModelRow) -> str:
        """Return the code of one task and one behaviour."""
        return row_code(row.task, row.behaviour)

    def tables(self, rows: Sequence[ModelRow]) -> list[Table]:
        """Return one table of all tasks and one per task."""
        return tables(rows)

    def page(self, rows: Sequence[ModelRow]) -> str:
        """Describe settings and results."""
        return page(rows)

    def draw(self, rows: Sequence[ModelRow], figure: Any) -> None:
        """Draw how far accuracy is from FedAvg's, and weights."""
        draw(rows, figure)


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Attributes
    ----------
    seeds : sequence of int
    quick : bool
        Little data, and few behaviours unless they are given.
    tasks, behaviours : tuple of str
        All if empty.
    shares : tuple of float
        How many of the clients behave so, one run each.
    folder : path or None
        Where IDX files and texts are looked for first.
    kept : path or None
        Where federations without scores are kept from one run to the next.
    keep_old : bool
        Take rows that other code decided as they are.
    """

    seeds: Sequence[int]
    quick: bool = False
    tasks: tuple[str, ...] = ()
    behaviours: tuple[str, ...] = ()
    shares: tuple[float, ...] = (SHARE,)
    folder: Path | None = None
    kept: Path | None = None
    keep_old: bool = False

    def __post_init__(self) -> None:
        for name in self.tasks:
            if name not in TASKS:
                raise UnknownNameError.of("task", name, TASKS)
        for text in self.behaviours:
            parse_behaviour(text)
        for share in self.shares:
            check_number("share", share, above=0, below=1)

    def cells(self) -> list[Cell]:
        """Return every (task, seed, behaviour, share), those of a task and seed in succession."""
        told = self.behaviours or (QUICK if self.quick else BEHAVIOURS)
        return [
            (task, seed, behaviour, share)
            for seed in self.seeds
            for task in self.tasks or TASKS
            for behaviour in told
            for share in self.shares
        ]

    @property
    def command(self) -> str:
        """What a user types to get all of it."""
        return " ".join(
            [
                f"fedmerit benchmark models --seed {self.seeds[0]} --seeds {len(self.seeds)}",
                *(["--quick"] if self.quick else []),
                *(f"--task {task}" for task in self.tasks),
                *(f"--behaviour {behaviour}" for behaviour in self.behaviours),
                *(f"--share {share:g}" for share in self.shares if self.shares != (SHARE,)),
            ]
        )


def row_code(task: str, behaviour: str) -> str:
    """Return the fingerprint of the code that decides the rows of a task and a behaviour."""
    return Sources.of(Bench, TASKS[task], parse_behaviour(behaviour), closed=CLOSED).code.digest


def key(row: ModelRow) -> Cell:
    """Return which cell a row belongs to."""
    return row.task, row.seed, row.behaviour, row.share


def ordered(rows: Sequence[ModelRow]) -> list[ModelRow]:
    """Sort rows as a run without stops would write them, whatever was run first."""
    tasks, behaviours = list(TASKS), list(BEHAVIOURS)

    def place(row: ModelRow) -> tuple[int, int, str, float, int]:
        known = row.behaviour in behaviours
        number = behaviours.index(row.behaviour) if known else len(behaviours)
        return tasks.index(row.task), number, row.behaviour, row.share, row.seed

    return sorted(rows, key=place)


def run_plan(
    plan: Plan, done: Sequence[ModelRow], begin: Tick, leave_out: Tick
) -> Iterator[ModelRow]:
    """Run the cells that are not `done` by the code as it is; `begin` is told about each of all.

    A task whose data is not there is left out, which `leave_out` is told once, unless the plan
    names it.
    """
    known = {
        key(row) for row in done if plan.keep_old or row.code == row_code(row.task, row.behaviour)
    }
    bench: Bench | None = None
    lacking: set[str] = set()
    for task, seed, behaviour, share in plan.cells():
        begin(f"{task}, {behaviour} by {share:.0%}, seed {seed}")
        if (task, seed, behaviour, share) in known or task in lacking:
            continue
        if bench is None or (bench.task.name, bench.seed) != (task, seed):
            try:
                bench = Bench(task, seed, quick=plan.quick, folder=plan.folder, kept=plan.kept)
            except DataError as error:
                if task in plan.tasks:
                    raise
                lacking.add(task)
                leave_out(f"{task} is left out: {error}")
                continue
        yield replace(bench.run(behaviour, share), code=row_code(task, behaviour))
