"""`fedmerit reproduce`: the paper's experiments with one command."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedmerit.cli.federations.data import DataDir, check_extra
from fedmerit.cli.names import DATASETS, EXPERIMENTS, check_name
from fedmerit.cli.options import Json, completed_from
from fedmerit.cli.output import console, print_json, print_table, progress
from fedmerit.types import RoundRecord
from fedmerit.validation import check_count

if TYPE_CHECKING:
    from fedmerit.experiments.runner import Cell, Outcome
    from fedmerit.experiments.spec import Experiment
    from fedmerit.simulation.clicks.log import ClickLog
    from fedmerit.simulation.data.datasets import Dataset

QUICK_ROUNDS, QUICK_SEEDS, QUICK_POINTS = 10, 1, 3


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            help="One of the names above.",
            show_default=False,
            autocompletion=completed_from(EXPERIMENTS),
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for runs, tables and figures; a stopped run continues.")
    ] = Path("runs"),
    dataset: Annotated[
        str | None,
        typer.Option(
            help="'fedmerit data list' shows them. Default: mnist; for din-... a generated log.",
            autocompletion=completed_from(DATASETS),
        ),
    ] = None,
    data_dir: DataDir = None,
    rounds: Annotated[int | None, typer.Option(help="Instead of the paper's 100.")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds; the band shows their spread.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The first of the seeds.")] = 0,
    quick: Annotated[
        bool, typer.Option(help="A few minutes: 10 rounds, one seed, three points.")
    ] = False,
    keep_old: Annotated[
        bool, typer.Option(help="Take finished runs that other code decided as they are.")
    ] = False,
    known: Annotated[
        Path | None,
        typer.Option(
            help="Table of an earlier run with the same data: rows that the same code decided "
            "count as finished."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run an experiment of the paper and draw its figures.

    Runs that are in the folder are not run again unless the code that decides them changed:
    FedAvg's stay when only fedmerit's own score did.

    Example: fedmerit reproduce mnist-honest --dataset digits --quick --rounds 1
    """
    name = check_name(name, EXPERIMENTS)
    check_extra()
    from fedmerit.experiments.families import ASSUMPTIONS, default_dataset, find_family
    from fedmerit.simulation.data.catalogue import load

    first = check_count("seed", seed, least=0)
    family = find_family(name)
    data = load(dataset or default_dataset(name), data_dir)
    folder = out / (f"{name}-quick" if quick else name)
    if not name.startswith("mnist"):
        folder = folder / data.name
    if name == ASSUMPTIONS:
        _assumptions(data, folder, first, quick=quick, as_json=as_json)
        return
    outcomes: list[Outcome] = []
    for experiment in family:
        count = len(experiment.seeds) if seeds is None else check_count("seeds", seeds, least=1)
        chosen = replace(experiment, seeds=tuple(range(first, first + count)))
        if quick:
            chosen = chosen.shortened(rounds=QUICK_ROUNDS, seeds=QUICK_SEEDS, points=QUICK_POINTS)
        if rounds is not None:
            chosen = replace(chosen, base=replace(chosen.base, rounds=rounds))
        target = folder if len(family) == 1 else folder / experiment.name
        outcomes += _one(chosen, data, target, keep_old=keep_old, known=known, as_json=as_json)
    if as_json:
        print_json([asdict(outcome) for outcome in outcomes])


def _one(
    experiment: "Experiment",
    data: "Dataset | ClickLog",
    folder: Path,
    *,
    keep_old: bool,
    known: Path | None,
    as_json: bool,
) -> list["Outcome"]:
    from fedmerit.experiments.figures import draw
    from fedmerit.experiments.runner import read_outcomes, run_experiment

    found = [] if known is None else read_outcomes(known)
    folder.mkdir(parents=True, exist_ok=True)
    runs = len(experiment.points) * len(experiment.lines) * len(experiment.seeds)
    with progress() as bar:
        task = bar.add_task("rounds", total=runs * experiment.base.rounds, status="")

        def show(cell: "Cell", record: RoundRecord) -> None:
            metric, reached = next(iter(record.metrics.items()))
            status = f"{cell.line.label}, {cell.point.value:g}: {metric} {reached:.4f}"
            bar.update(task, completed=_before(experiment, cell) + record.round, status=status)

        outcomes = run_experiment(
            experiment, data, folder, on_round=show, keep_old=keep_old, known=found
        )
    figure = draw(experiment, outcomes, folder)
    if not as_json:
        _print(experiment, outcomes)
        for path in (folder / f"{experiment.name}.csv", figure):
            console.print(str(path), soft_wrap=True, highlight=False)
    return outcomes


def _assumptions(
    data: "Dataset | ClickLog", folder: Path, seed: int, *, quick: bool, as_json: bool
) -> None:
    from fedmerit.experiments.assumptions import check_assumptions

    with console.status("training, then testing pairs of parameters"):
        rows, files = check_assumptions(data, folder, seed, quick=quick)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    print_table(
        "Signals of two random parameters: share of pairs rejected at 5 %",
        ("parameters", "pairs", "constant", "Spearman", "Kolmogorov-Smirnov"),
        [(r.group, r.pairs, r.constant, r.spearman, r.smirnov) for r in rows],
    )
    for path in files:
        console.print(str(path), soft_wrap=True, highlight=False)


def _before(experiment: "Experiment", cell: "Cell") -> int:
    from fedmerit.experiments.runner import cells

    return list(cells(experiment)).index(cell) * experiment.base.rounds


def _print(experiment: "Experiment", outcomes: Sequence["Outcome"]) -> None:
    rows = []
    for point in experiment.points:
        for line in experiment.lines:
            here = [o for o in outcomes if (o.value, o.line) == (point.value, line.name)]
            accuracy = [o.accuracy for o in here]
            weights = [o.dishonest_weight for o in here]
            rows.append(
                (
                    f"{point.value:g}",
                    line.label,
                    math.fsum(accuracy) / len(here),
                    max(accuracy) - min(accuracy),
                    math.fsum(weights) / len(here),
                )
            )
    columns = (
        experiment.axis,
        "aggregation",
        experiment.metric,
        "spread",
        "weight of a dishonest user",
    )
    print_table(experiment.title, columns, rows)
