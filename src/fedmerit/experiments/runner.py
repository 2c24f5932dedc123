"""Run an experiment: one folder per run, finished runs are read, unfinished ones continued."""

import csv
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedmerit.aggregators import aggregate
from fedmerit.aggregators.touched import mean_over_touching
from fedmerit.aggregators.weighting import weights
from fedmerit.behaviours import Assignment, Honest
from fedmerit.experiments.fingerprint import Sources
from fedmerit.experiments.spec import Experiment, Line, Point
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.config import DinChoice, FederationConfig, ModelChoice, Partition
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.results import CLIENT_COLUMNS, METRIC, ResultFiles
from fedmerit.simulation.run import run
from fedmerit.simulation.task import click_clients
from fedmerit.simulation.training.settings import LocalTraining
from fedmerit.types import RoundRecord

PLAIN = ("score", "size", "uniform")  # weightings that no verdict changes
VERDICTS = (
    "fedmerit.comparison",
    "fedmerit.evidence",
    "fedmerit.flags",
    "fedmerit.incentive",
    "fedmerit.sampling",
    "fedmerit.scorers",
    "fedmerit.server",
    "fedmerit.types",
)
_FILES = ("fedmerit.simulation.checkpoint", "fedmerit.simulation.results")
# A federation, and what it is given beside its rules.
_STEPS = (
    Federation.start,
    Federation.step,
    FederationConfig,
    Partition,
    ModelChoice,
    DinChoice,
    LocalTraining,
    Assignment,
    Honest,
)
_CODE = "code"
LAST = 10  # single rounds swing by some 0.03: results are means over the last rounds


@dataclass(frozen=True)
class Outcome:
    """The result of one run.

    `accuracy` (or what the task is judged by) is the mean of the last rounds; weights and scores
    are means over all reports of all rounds, NaN where there were none; `shut_out` counts honest
    clients that took part and never got any weight; `code` is the fingerprint of what decided it.
    """

    line: str
    value: float
    seed: int
    rounds: int
    accuracy: float
    last_accuracy: float
    honest_weight: float
    dishonest_weight: float
    honest_score: float
    dishonest_score: float
    shut_out: int
    code: str = ""


@dataclass(frozen=True)
class Cell:
    """One run of an experiment."""

    line: Line
    point: Point
    seed: int

    def folder(self, parent: Path) -> Path:
        """Return where the run is kept."""
        return parent / "runs" / self.line.name / f"{self.point.value:g}" / f"seed-{self.seed}"


def cells(experiment: Experiment) -> Iterator[Cell]:
    """Yield the runs, all lines of one seed and point together: a stopped experiment is fair."""
    for seed in experiment.seeds:
        for point in experiment.points:
            for line in experiment.lines:
                yield Cell(line, point, seed)


def fitted(experiment: Experiment, dataset: Dataset | ClickLog) -> Experiment:
    """Return the experiment with no more users than a click log has."""
    if not isinstance(dataset, ClickLog):
        return experiment
    users = min(experiment.base.users, len(click_clients(dataset)))
    return replace(experiment, base=replace(experiment.base, users=users))


def run_experiment(
    experiment: Experiment,
    dataset: Dataset | ClickLog,
    folder: Path,
    *,
    on_round: Callable[[Cell, RoundRecord], None] | None = None,
    keep_old: bool = False,
    known: Sequence[Outcome] = (),
) -> list[Outcome]:
    """Run what is missing under `folder`, write the table, and return all outcomes.

    Runs that other code decided are run again, unless `keep_old` takes them as they are. Of runs
    that are `known` from another table, those that the code as it is decided count as finished,
    where the figure does not need their single rounds.
    """
    by_cell = {(o.line, o.value, o.seed, o.rounds, o.code): o for o in known}
    experiment = fitted(experiment, dataset)
    outcomes = []
    for cell in cells(experiment):
        config = experiment.config(cell.line, cell.point, cell.seed)

        def report(record: RoundRecord, cell: Cell = cell) -> None:
            if on_round is not None:
                on_round(cell, record)

        target, code = cell.folder(folder), sources_of(cell).code.digest
        told = by_cell.get((cell.line.name, cell.point.value, cell.seed, config.rounds, code))
        if told is not None and len(experiment.points) > 1 and not target.exists():
            outcomes.append(told)
            continue
        code = prepare(target, code, keep_old=keep_old)
        run(Federation(config, dataset), folder=target, resume=True, on_round=report)
        outcomes.append(replace(read_outcome(cell, target, config.rounds), code=code))
    write_outcomes(folder / f"{experiment.name}.csv", outcomes)
    return outcomes


def sources_of(cell: Cell) -> Sources:
    """Return what decides a run of an experiment.

    Where weights do not depend on verdicts, the server takes a weighted mean (tests hold it to
    that bit for bit), and its scorer, if there is one, is all that counts beside the training.
    """
    rules = cell.line.rules
    roles = [
        behaviour
        for told in (cell.point.behaviours, cell.point.extra)
        for _, behaviour in Assignment.parse(told).parts
    ]
    scorer = () if rules.scorer is None else (rules.scorer,)
    if rules.weighting in PLAIN:
        return plain_sources(read_outcome, *scorer, *roles)
    return Sources.of(*_STEPS, read_outcome, *scorer, *roles, closed=_FILES)


def plain_sources(*decided: object) -> Sources:
    """Return what decides a federation whose weights do not depend on verdicts."""
    means = (aggregate, weights, mean_over_touching)
    return Sources.of(*_STEPS, *means, *decided, closed=(*_FILES, *VERDICTS))


def prepare(folder: Path, code: str, *, keep_old: bool = False) -> str:
    """Make room for a run; return the fingerprint of the code that decides what will be there."""
    note = folder / _CODE
    if folder.exists():
        found = note.read_text(encoding="utf-8").strip() if note.is_file() else ""
        if keep_old or found == code:
            return found
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    note.write_text(f"{code}\n", encoding="utf-8")
    return code


def read_outcome(cell: Cell, folder: Path, rounds: int) -> Outcome:
    """Summarise the first `rounds` rounds of a finished run."""
    _, by_client = ResultFiles(folder).read()
    accuracy = accuracies(folder, rounds)
    client, behaviour, weight, score = (
        CLIENT_COLUMNS.index(name) for name in ("client", "behaviour", "weight", "score")
    )
    used = [row for row in by_client if int(row[0]) <= rounds and row[weight]]
    honest = [row for row in used if row[behaviour] == "honest"]
    others = [row for row in used if row[behaviour] != "honest"]
    weighed = {row[client] for row in honest if float(row[weight]) > 0}
    return Outcome(
        line=cell.line.name,
        value=cell.point.value,
        seed=cell.seed,
        rounds=rounds,
        accuracy=_mean(accuracy[-LAST:]),
        last_accuracy=accuracy[-1],
        honest_weight=_mean([float(row[weight]) for row in honest]),
        dishonest_weight=_mean([float(row[weight]) for row in others]),
        honest_score=_mean([float(row[score]) for row in honest if row[score]]),
        dishonest_score=_mean([float(row[score]) for row in others if row[score]]),
        shut_out=len({row[client] for row in honest} - weighed),
    )


def accuracies(folder: Path, rounds: int) -> list[float]:
    """Return the accuracy after each of the first `rounds` rounds of a run."""
    by_round, _ = ResultFiles(folder).read()
    return [float(row[METRIC]) for row in by_round[:rounds]]


def write_outcomes(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the table of all runs, whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([field.name for field in fields(Outcome)])
        for outcome in outcomes:
            told = {**asdict(outcome), "value": f"{outcome.value:g}"}
            table.writerow(["" if _is_nan(v) else v for v in told.values()])
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_outcomes(path: Path) -> list[Outcome]:
    """Read what `write_outcomes` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Outcome(**{name: _read(name, text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]


def _read(name: str, text: str) -> Any:
    if name in ("line", "code"):
        return text
    return int(text) if name in ("seed", "rounds", "shut_out") else float(text or "nan")


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
