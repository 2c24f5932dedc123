"""`fedmerit reproduce`: the paper's experiments with one command."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedmerit.cli.data import DataDir, check_extra
from fedmerit.cli.options import Json
from fedmerit.cli.output import console, print_json, print_table, progress
from fedmerit.types import RoundRecord
from fedmerit.validation import check_count

if TYPE_CHECKING:
    from fedmerit.experiments.runner import Cell, Outcome
    from fedmerit.experiments.spec import Experiment

QUICK_ROUNDS, QUICK_SEEDS, QUICK_POINTS = 10, 1, 3


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="mnist-free-riders, mnist-noise, mnist-honest, or mnist-random-models (riders "
            "whose models, not updates, are noise)."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for runs, tables and figures; a stopped run continues.")
    ] = Path("runs"),
    dataset: Annotated[str, typer.Option(help="'fedmerit data list' shows them.")] = "mnist",
    data_dir: DataDir = None,
    rounds: Annotated[int | None, typer.Option(help="Instead of the paper's 100.")] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds; the band shows their spread.")] = 3,
    seed: Annotated[int, typer.Option(help="The first of the seeds.")] = 0,
    quick: Annotated[
        bool, typer.Option(help="A few minutes: 10 rounds, one seed, three points.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment of the paper and draw its figure.

    Example: fedmerit reproduce mnist-honest --dataset digits --quick --rounds 1
    """
    check_extra()
    from fedmerit.experiments.figures import draw
    from fedmerit.experiments.runner import run_experiment
    from fedmerit.experiments.spec import find_experiment
    from fedmerit.simulation.datasets import load

    count, first = check_count("seeds", seeds, least=1), check_count("seed", seed, least=0)
    experiment = replace(find_experiment(name), seeds=tuple(range(first, first + count)))
    if quick:
        experiment = experiment.shortened(
            rounds=QUICK_ROUNDS, seeds=QUICK_SEEDS, points=QUICK_POINTS
        )
    if rounds is not None:
        experiment = replace(experiment, base=replace(experiment.base, rounds=rounds))
    data = load(dataset, data_dir)
    folder = out / f"{name}-quick" if quick else out / name
    folder.mkdir(parents=True, exist_ok=True)
    runs = len(experiment.points) * len(experiment.lines) * len(experiment.seeds)
    with progress() as bar:
        task = bar.add_task("rounds", total=runs * experiment.base.rounds, status="")

        def show(cell: "Cell", record: RoundRecord) -> None:
            accuracy = record.metrics["accuracy"]
            status = f"{cell.line.label}, {cell.point.value:g}: accuracy {accuracy:.4f}"
            bar.update(task, completed=_before(experiment, cell) + record.round, status=status)

        outcomes = run_experiment(experiment, data, folder, on_round=show)
    files = draw(experiment, outcomes, folder)
    if as_json:
        print_json([asdict(outcome) for outcome in outcomes])
        return
    _print(experiment, outcomes)
    for path in (folder / f"{name}.csv", *files):
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
    columns = (experiment.axis, "aggregation", "accuracy", "spread", "weight of a dishonest user")
    print_table(experiment.title, columns, rows)
