"""The free-rider benchmark's page: our cells beside the published figures of other detectors."""

from collections.abc import Sequence
from typing import Any

from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.rows import FreeRiderRow
from fedmerit.experiments.benchmark.statistics import mean

Rows = Sequence[FreeRiderRow]
DETECTORS = ("round", "watch")
GOOD = 0.9

_SETTINGS = """\
LeNet-5 on MNIST, Dirichlet partition with alpha 1, 80 % of each part trains, batches of 32, Adam
with learning rate 0.001, one local epoch, everyone in every round; a client flagged once stays
flagged. A full run has 20 rounds, 10 and 100 clients, 10, 30 and 70 % riders, four attacks and
clean runs, three seeds; `--quick` has 5 rounds, 10 clients and a tenth of the data, one seed, so
its figures are not those of the benchmark. *round*: flagged by the default score in any round.
*watch*: flagged by evidence gathered over rounds, at a false discovery rate of 1 %. Clients are
weighed by the default: FedAvg, without those that merit keeps out."""

# Reported by the benchmark's authors; cells of MNIST and CIFAR-10 together, false alarms on MNIST.
PUBLISHED = Table(
    "Published figures of other detectors",
    ("detector", "cells with both at least 0.9, of 48", "false alarms, clean, 100 clients"),
    (
        ("delta_dagmm (trained beforehand)", "23", "2.7"),
        ("viceroy", "22", "34.7"),
        ("rffl", "12", "-"),
        ("wef", "8", "16.3"),
        ("fgfl", "0", "24.3"),
    ),
)


def tables(rows: Rows) -> list[Table]:
    """Return precision and recall per cell, means over seeds."""
    cells = dict.fromkeys((r.clients, r.attack, r.riders) for r in rows if r.riders)
    clean = dict.fromkeys(r.clients for r in rows if not r.riders)
    heads = [f"{what}, {d}" for d in DETECTORS for what in ("precision", "recall", "false alarms")]
    return [
        Table(
            "Precision and recall, mean over seeds",
            ("cell", *heads, "accuracy"),
            tuple(
                (
                    f"{clients} clients, {riders} {attack}",
                    *(
                        value
                        for d in DETECTORS
                        for value in _cell(rows, clients, attack, riders, d)
                    ),
                    mean([r.accuracy for r in _rows(rows, clients, attack, riders, "round")]),
                )
                for clients, attack, riders in cells
            ),
        ),
        Table(
            "Clean runs: honest clients flagged, mean over seeds",
            ("clients", *DETECTORS, "accuracy"),
            tuple(
                (
                    str(clients),
                    *(_cell(rows, clients, "none", 0, d)[2] for d in DETECTORS),
                    mean([r.accuracy for r in _rows(rows, clients, "none", 0, "round")]),
                )
                for clients in clean
            ),
        ),
    ]


def good_cells(rows: Rows, detector: str) -> tuple[int, int]:
    """Return how many cells have mean precision and recall of at least 0.9, and how many exist."""
    cells = dict.fromkeys((r.clients, r.attack, r.riders) for r in rows if r.riders)
    found = [_cell(rows, *cell, detector) for cell in cells]
    return sum(p >= GOOD and recall >= GOOD for p, recall, _ in found), len(found)


def page(rows: Rows) -> str:
    """Describe settings and results."""
    seeds = ", ".join(map(str, sorted({row.seed for row in rows})))
    told = "; ".join(
        "{}: {} of {}".format(detector, *good_cells(rows, detector)) for detector in DETECTORS
    )
    parts = [
        f"{_SETTINGS} This run: {rows[0].rounds} rounds, seeds {seeds}.",
        f"Cells with precision and recall of at least {GOOD}: {told}. Nobody flagged counts as "
        "missed.",
        *(f"## {table.title}\n\n{table.markdown()}" for table in (*tables(rows), PUBLISHED)),
    ]
    return "\n\n".join(parts)


def draw(rows: Rows, figure: Any) -> None:
    """Draw precision and recall per cell and detector."""
    cells = dict.fromkeys((r.clients, r.attack, r.riders) for r in rows if r.riders)
    labels = [f"{clients}: {riders} {attack}" for clients, attack, riders in cells]
    for axes, detector in zip(figure.subplots(1, 2, sharey=True), DETECTORS, strict=True):
        found = [_cell(rows, *cell, detector) for cell in cells]
        axes.barh(range(len(cells)), [f[0] for f in found], height=0.4, label="precision")
        places = [place + 0.4 for place in range(len(cells))]
        axes.barh(places, [f[1] for f in found], height=0.4, label="recall")
        axes.axvline(GOOD, color="grey", linewidth=0.8)
        axes.set(xlim=(0, 1.02), title=detector)
        axes.set_yticks([place + 0.2 for place in range(len(cells))], labels, fontsize=7)
    figure.axes[0].legend(fontsize=8)


def _rows(rows: Rows, clients: int, attack: str, riders: int, detector: str) -> Rows:
    wanted = (clients, attack, riders, detector)
    return [r for r in rows if (r.clients, r.attack, r.riders, r.detector) == wanted]


def _cell(
    rows: Rows, clients: int, attack: str, riders: int, detector: str
) -> tuple[float, float, float]:
    here = _rows(rows, clients, attack, riders, detector)
    return (
        mean([r.precision for r in here]),
        mean([r.recall for r in here]),
        mean([float(r.false_alarms) for r in here]),
    )
