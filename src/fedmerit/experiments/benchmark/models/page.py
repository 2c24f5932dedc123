"""The models benchmark's page: the clean federations, where ours is worse, and every task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.models.cells import RIDERS
from fedmerit.experiments.benchmark.models.federation import SHARE
from fedmerit.experiments.benchmark.rows import ModelRow
from fedmerit.experiments.benchmark.statistics import mean

Rows = Sequence[ModelRow]
WORSE = 0.005
_SEEN = 0.05  # of a value in a cell of a heat map: less is told by its colour

_SETTINGS = """\
Federations of PyTorch models around a `fedmerit.Server` with its default settings, which were not
chosen on these tasks. Everyone takes part in every round; clients send whole states (running
statistics of batch normalisation included; of adapters, the adapters). 30 % of the clients, or as
many as said, behave as named, the same clients whatever they do. *Accuracy* is held-out, mean after
the last three rounds, of ours, of FedAvg by claimed size, of the coordinate-wise median, and of
FedAvg where the dishonest stay at *home*; all with the same draws. *Weight* (per example held) and
*pay* (the sum) are those of a dishonest client relative to an honest one, over all rounds; in the
row *honest*, where nobody lies, of the same clients. *Late* is the weight from the third round on.
*Flagged* counts reports that were accused or rejected, *no weight* honest reports without weight,
*named* clients named by evidence over rounds at the end (honest ones as a number per run),
*undecided* reports about which the scorer did not decide. *Pay spread* is the standard deviation of
what honest clients are paid relative to the mean. *Same bits* is the share of runs whose last model
is, bit for bit, that of FedAvg without the dishonest, and *difference* the largest between a
parameter of one and of the other."""

_COLUMNS = {
    "accuracy": "ours",
    "fedavg": "FedAvg",
    "median": "median",
    "home": "home",
    "weight": "weight",
    "late_weight": "late",
    "pay": "pay",
    "flagged": "flagged",
    "named": "named",
    "honest_flagged": "honest flagged",
    "honest_unweighted": "no weight",
    "honest_named": "honest named",
    "undecided": "undecided",
    "pay_spread": "pay spread",
    "same_bits": "same bits",
    "difference": "difference",
}
# What is rarely anything else than expected where somebody lies; the rows have it.
_IN_TABLE_ONLY = ("honest_unweighted", "honest_named", "difference")
_CLEAN = (
    "accuracy",
    "fedavg",
    "median",
    "honest_flagged",
    "honest_unweighted",
    "honest_named",
    "undecided",
    "pay_spread",
    "same_bits",
    "difference",
)


def tables(rows: Rows) -> list[Table]:
    """Return the clean federations, and the behaviours of every task."""
    tasks, clean = _tasks(rows), [row for row in rows if not row.liars]
    found = []
    if clean:
        found.append(
            Table(
                "Nobody lies",
                ("task", *(_COLUMNS[column] for column in _CLEAN)),
                tuple(
                    (task, *(_everybody(clean, task, column) for column in _CLEAN))
                    for task in _tasks(clean)
                ),
            )
        )
    return [*found, *(_table([row for row in rows if row.task == task], task) for task in tasks)]


def page(rows: Rows) -> str:
    """Describe settings and results."""
    seeds = ", ".join(map(str, sorted({row.seed for row in rows})))
    size = " Tasks have little data (`--quick`)." if any(row.quick for row in rows) else ""
    return "\n\n".join(
        [
            f"{_SETTINGS} Seeds: {seeds}.{size}",
            _summary(rows),
            *(f"## {table.title}\n\n{table.markdown()}" for table in tables(rows)),
        ]
    )


@dataclass(frozen=True)
class Loss:
    """A cell in which ours is worse than FedAvg: held-out accuracy, means over seeds."""

    task: str
    behaviour: str
    ours: float
    fedavg: float
    home: float

    def __str__(self) -> str:
        told = f"{self.task}, {self.behaviour}: {self.ours:.3f} against {self.fedavg:.3f}"
        return f"{told} ({self.home:.3f} where the dishonest stay at home)"


def worse(rows: Rows) -> list[Loss]:
    """Return the cells in which ours is worse than FedAvg by more than `WORSE`, the worst first."""
    cells = dict.fromkeys((row.task, _conduct(row)) for row in rows)
    means = [
        Loss(*cell, *(_mean(rows, *cell, name) for name in ("accuracy", "fedavg", "home")))
        for cell in cells
    ]
    lost = [cell for cell in means if cell.fedavg - cell.ours > WORSE]
    return sorted(lost, key=lambda cell: cell.ours - cell.fedavg)


def draw(rows: Rows, figure: Any) -> None:
    """Draw heat maps: accuracy less FedAvg's, weight and pay of the dishonest."""
    rows = [row for row in rows if row.share == SHARE]
    tasks, behaviours = _tasks(rows), list(dict.fromkeys(map(_conduct, rows)))
    figure.set_size_inches(15, 1.5 + 0.25 * len(behaviours))
    maps = (
        ("accuracy less FedAvg's", "RdYlGn", -0.1, 0.1),
        ("weight of the dishonest", "RdYlGn_r", 0, 2),
        ("pay of the dishonest", "RdYlGn_r", 0, 2),
    )
    for axes, (title, colours, low, high) in zip(
        figure.subplots(1, 3, sharey=True), maps, strict=True
    ):
        values = np.array([[_shown(rows, t, b, title) for t in tasks] for b in behaviours])
        axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="none")
        for (y, x), value in np.ndenumerate(values):
            if value == value and abs(value) >= _SEEN:  # what is little is seen by its colour
                axes.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=5)
        axes.set_xticks(range(len(tasks)), tasks, rotation=60, fontsize=7)
        axes.set_yticks(range(len(behaviours)), behaviours, fontsize=7)
        axes.set_title(title, fontsize=9)


def _shown(rows: Rows, task: str, behaviour: str, title: str) -> float:
    if title.startswith("accuracy"):
        ours, theirs = (_mean(rows, task, behaviour, name) for name in ("accuracy", "fedavg"))
        return ours - theirs
    return _mean(rows, task, behaviour, title.partition(" ")[0])


def _summary(rows: Rows) -> str:
    """Say what counts in a few lines."""
    clean = [row for row in rows if not row.liars]
    alike = sum(row.same_bits for row in clean)
    reports = sum(row.rounds * (row.clients - row.liars) for row in rows)
    flagged = sum(row.honest_flagged * row.rounds * (row.clients - row.liars) for row in rows)
    lost = worse(rows)
    cells = len({(row.task, _conduct(row)) for row in rows})
    lines = [
        f"- Of {reports} honest reports in {len(rows)} runs {round(flagged)} were flagged; "
        f"{sum(row.honest_named for row in rows)} honest clients were named.",
        f"- Where nobody lies, the model is FedAvg's bit for bit in {alike} of {len(clean)} runs.",
        f"- Ours is worse than FedAvg by more than {WORSE} in {len(lost)} of {cells} cells"
        + (":" if lost else "."),
        *(f"    - {cell}" for cell in lost),
        *_riders([row for row in rows if row.behaviour in RIDERS]),
    ]
    return "\n".join(lines)


def _riders(rows: Rows) -> list[str]:
    """Say whether who trains nothing is out of the model, and what it costs."""
    if not rows:
        return []
    heard = [row for row in rows if row.late_weight > 0]
    moved = [row for row in rows if abs(row.accuracy - row.home) > WORSE]
    told = [
        f"- Of {len(rows)} runs with clients that train nothing, they weigh nothing from the third "
        f"round on in {len(rows) - len(heard)}" + (":" if heard else ".")
    ]
    told += _listed(heard, "late_weight", "weight")
    told.append(
        f"- In {len(rows) - len(moved)} of these runs accuracy is within {WORSE} of the run in "
        "which they stay at home" + (":" if moved else ".")
    )
    for row in moved:
        row_told = f"{row.accuracy:.3f} against {row.home:.3f} (FedAvg {row.fedavg:.3f})"
        told.append(f"    - {row.task}, {_conduct(row)}, seed {row.seed}: {row_told}")
    return told


def _listed(rows: Rows, column: str, word: str) -> list[str]:
    """List tasks with the conduct that is heard there, and how much of them was undecided."""
    lines = []
    for task in _tasks(rows):
        here = [row for row in rows if row.task == task]
        undecided = mean([row.undecided for row in here])
        conduct = {name: _mean(here, task, name, column) for name in map(_conduct, here)}
        listed = ", ".join(f"{name} {value:.2f}" for name, value in conduct.items())
        lines.append(f"    - {task} ({undecided:.0%} of reports undecided), {word}: {listed}")
    return lines


def _conduct(row: ModelRow) -> str:
    """Say how the dishonest behave, and how many they are where that is not as usual."""
    usual = row.share == SHARE
    return row.behaviour if usual else f"{row.behaviour} by {row.share:.0%}"


def _table(rows: Rows, task: str) -> Table:
    names = dict.fromkeys(map(_conduct, rows))
    shown = {column: title for column, title in _COLUMNS.items() if column not in _IN_TABLE_ONLY}
    return Table(
        f"Task {task}",
        ("behaviour", *shown.values()),
        tuple((name, *(_mean(rows, task, name, column) for column in shown)) for name in names),
    )


def _tasks(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row.task for row in rows))


def _everybody(rows: Rows, task: str, column: str) -> float:
    return mean([float(getattr(row, column)) for row in rows if row.task == task])


def _mean(rows: Rows, task: str, behaviour: str, column: str) -> float:
    here = [row for row in rows if (row.task, _conduct(row)) == (task, behaviour)]
    return mean([float(getattr(row, column)) for row in here])
