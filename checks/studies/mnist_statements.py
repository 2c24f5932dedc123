"""The tables of docs/results/mnist-figures.md: ``python -m checks.studies.mnist_statements``.

They are made from the CSV files beside it. With FOLDER, the `--out` of ``fedmerit reproduce
mnist-honest``, ``mnist-free-riders`` and ``mnist-noise``, and of ``python -m
checks.studies.mnist_without_riders``, tables and figures are taken from there first. Every figure
is a mean over the seeds, with the lowest and the highest.
"""

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

from checks.pages.parts import write_parts
from checks.pages.results import FOLDER
from checks.studies.mnist_without_riders import NAME
from fedmerit.experiments.runner import Outcome, read_outcomes

PAGE = FOLDER / "mnist-figures.md"
FEDAVG, PUBLISHED, DEFAULT = "fedavg", "fed-pca-published", "fedmerit"
LINES = {FEDAVG: "FedAvg", PUBLISHED: "as published, read literally", DEFAULT: "ours"}
PAPER = {FEDAVG: "0.9458", PUBLISHED: "0.9421", DEFAULT: ""}


def spread(values: Sequence[float], digits: int = 4) -> str:
    """Return the mean with the lowest and the highest value."""
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.{digits}f} (one seed)"
    low, high = min(values), max(values)
    return f"{mean(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def pick(outcomes: Sequence[Outcome], line: str, value: float) -> list[Outcome]:
    """Return the runs of a line at a point, by seed."""
    found = [o for o in outcomes if o.line == line and o.value == value]
    return sorted(found, key=lambda outcome: outcome.seed)


def honest(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the table of accuracies without dishonest users."""
    seeds = sorted({outcome.seed for outcome in outcomes})
    rows = ["| | paper | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean |"]
    rows.append("|---|---:|" + "---:|" * (len(seeds) + 1))
    for line, label in LINES.items():
        reached = [outcome.accuracy for outcome in pick(outcomes, line, 0)]
        cells = [f"{value:.4f}" for value in (*reached, mean(reached))]
        rows.append(f"| {label} | {PAPER[line]} | " + " | ".join(cells) + " |")
    return rows


def along(outcomes: Sequence[Outcome], head: str, name: Callable[[float], str]) -> list[str]:
    """Return accuracy and weight of a dishonest user, by point and line."""
    titles = [f"{label}: accuracy | weight" for label in LINES.values()]
    rows = [f"| {head} | " + " | ".join(titles) + " |", "|---:|" + "---:|" * 2 * len(LINES)]
    for value in sorted({outcome.value for outcome in outcomes}):
        cells = []
        for line in LINES:
            runs = pick(outcomes, line, value)
            weights = [o.dishonest_weight for o in runs if o.dishonest_weight == o.dishonest_weight]
            cells.append(spread([o.accuracy for o in runs]))
            cells.append(spread(weights, 5))
        rows.append(f"| {name(value)} | " + " | ".join(cells) + " |")
    return rows


def against(outcomes: Sequence[Outcome], clean: Sequence[Outcome], head: str) -> list[str]:
    """Return, for our default, what is lost against the clean run, and the relative weight."""
    rows = [
        f"| {head} | accuracy minus the clean run's, by seed | weight / an honest user's "
        "| honest users never weighed |",
        "|---:|---:|---:|---:|",
    ]
    reference = {outcome.seed: outcome.accuracy for outcome in pick(clean, DEFAULT, 0)}
    for value in sorted({outcome.value for outcome in outcomes} - {0.0}):
        runs = pick(outcomes, DEFAULT, value)
        lost = ", ".join(f"{run.accuracy - reference[run.seed]:+.4f}" for run in runs)
        ratio = spread([run.dishonest_weight / run.honest_weight for run in runs], 3)
        out = sum(run.shut_out for run in runs)
        rows.append(f"| {value:g} | {lost} | {ratio} | {out} |")
    return rows


def without(riders: Sequence[Outcome], others: Sequence[Outcome]) -> list[str]:
    """Return what riders cost against the run in which they stay at home."""
    rows = ["| riders | with them, by seed | without them | difference |", "|---:|---:|---:|---:|"]
    for value in sorted({outcome.value for outcome in others}):
        there, gone = pick(riders, DEFAULT, value), pick(others, DEFAULT, value)
        alone = {run.seed: run.accuracy for run in gone}
        cells = [
            ", ".join(f"{run.accuracy:.4f}" for run in there),
            ", ".join(f"{run.accuracy:.4f}" for run in gone),
            ", ".join(f"{r.accuracy - alone[r.seed]:+.4f}" for r in there if r.seed in alone),
        ]
        rows.append(f"| {value:g} % | " + " | ".join(cells) + " |")
    return rows


def main(folder: Path | None = None) -> None:
    """Write all tables into the page; take results from `folder` first, if there is one."""
    names = ("mnist-honest", "mnist-free-riders", "mnist-noise", NAME)
    for name in names if folder else ():
        for file in (folder / name).glob(f"{name}.*"):
            shutil.copy(file, FOLDER)
    clean, riders, noise, home = (read_outcomes(FOLDER / f"{name}.csv") for name in names)
    tables = {
        "honest": honest(clean),
        "riders": along(riders, "riders", lambda v: f"{v:g} %"),
        "riders in detail": against(riders, clean, "riders, %"),
        "without riders": without(riders, home),
        "noise": along(noise, "noise", lambda v: f"{v:g}"),
        "noise in detail": against(noise, clean, "noise"),
    }
    write_parts(PAGE, {name: "\n".join(lines) for name, lines in tables.items()})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
