"""The attacks benchmark's page: what each behaviour earns, and heat maps over scorers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.rows import AttackRow
from fedmerit.experiments.benchmark.statistics import mean

Rows = Sequence[AttackRow]
LEAST_AUC, MOST_REWARD, MOST_MOVED = 0.99, 0.05, 0.02

_SETTINGS = """\
30 % of the clients behave as named, everyone takes part in every round. The data are cut into 100
parts, of which as many are used as there are clients: *shards*, the paper's 200 label-sorted
shards, two each, or *dirichlet*, proportions of every label drawn with alpha 1. An MLP with 200
hidden units and dropout 0.5, SGD as in the paper, 2 local epochs. A full run has 20 clients and 10
rounds, `--quick` 10 clients and 6 rounds. The default (merit keeps clients out, FedAvg's weights
for the others) aggregates; all scorers see the same reports. From the third round on: *AUC* is the
chance that an honest client's mean score exceeds a dishonest one's; *reward* (the positive part of
the score) is that of a dishonest client relative to an honest one, and so is *weight*: how often
a report counts for scores that flag, a softmax of the score for the others. Where no honest client
is paid (*honest paid* is 0) there is no such ratio. *Flagged* counts reports flagged in their
round, *watched* clients flagged by evidence over rounds. *Accuracy* is that of the default after
the last round, *fedavg* that of FedAvg by claimed sizes; the row *honest* is the clean federation.
Scores of krum are never positive, so they pay nobody."""


def tables(rows: Rows) -> list[Table]:
    """Return merit's results by behaviour, and ROC AUC and reward by scorer, per partition."""
    partitions = dict.fromkeys(row.partition for row in rows)
    return [table for name in partitions for table in _tables(rows, name)]


def page(rows: Rows) -> str:
    """Describe settings and results."""
    seeds = ", ".join(map(str, sorted({row.seed for row in rows})))
    partitions = dict.fromkeys(row.partition for row in rows)
    parts = [
        f"{_SETTINGS} Seeds: {seeds}.",
        f"Goals for behaviours that do not train: ROC AUC of merit at least {LEAST_AUC}, reward "
        f"below {MOST_REWARD}.",
        *(_missed([r for r in rows if r.partition == name], name) for name in partitions),
        *(f"## {table.title}\n\n{table.markdown()}" for table in tables(rows)),
    ]
    return "\n\n".join(parts)


def _missed(rows: Rows, partition: str) -> str:
    riders = dict.fromkeys(row.behaviour for row in rows if row.rides)
    missed = []
    for name in riders:
        auc, reward = (_mean(rows, name, "merit", column) for column in ("auc", "reward"))
        if not (auc >= LEAST_AUC and reward < MOST_REWARD):
            told = "nobody paid" if reward != reward else f"reward {reward:.3f}"
            missed.append(f"{name} (AUC {auc:.3f}, {told})")
    met = len(riders) - len(missed)
    clean = _mean(rows, "honest", "merit", "accuracy")
    moved = ", ".join(
        f"{name} {_mean(rows, name, 'merit', 'accuracy') - clean:+.3f}"
        for name in dict.fromkeys(row.behaviour for row in rows)
        if name.startswith(("boost", "sign-flip"))
    )
    short = f" Missed: {', '.join(missed)}." if missed else ""
    return (
        f"*{partition}*: {met} of {len(riders)} meet them.{short} "
        f"Accuracy against the clean run (goal: within {MOST_MOVED}): {moved}."
    )


def _tables(rows: Rows, partition: str) -> list[Table]:
    rows = [row for row in rows if row.partition == partition]
    names = list(dict.fromkeys(row.behaviour for row in rows))
    scorers = ["merit", *dict.fromkeys(row.scorer for row in rows if row.scorer != "merit")]
    caught = ("flagged", "watched", "flagged_after", "honest_flagged", "honest_watched")
    told = ("auc", "weight", "reward", "honest_paid", *caught, "accuracy", "fedavg")
    dishonest = [name for name in names if name != "honest"]
    return [
        Table(
            f"Merit, the default: {partition}",
            ("behaviour", *(column.replace("_", " ") for column in told)),
            tuple((n, *(_mean(rows, n, "merit", column) for column in told)) for n in names),
        ),
        *(
            Table(
                f"{title}: {partition}",
                ("behaviour", *scorers),
                tuple((n, *(_mean(rows, n, s, column) for s in scorers)) for n in dishonest),
            )
            for title, column in (("ROC AUC by scorer", "auc"), ("Reward by scorer", "reward"))
        ),
    ]


def draw(rows: Rows, figure: Any) -> None:
    """Draw heat maps of ROC AUC and reward; the tables have the numbers."""
    maps = [table for table in tables(rows) if "by scorer" in table.title]
    figure.set_size_inches(11, 2.9 * len(maps))
    for axes, table in zip(
        figure.subplots(len(maps) // 2, 2, sharey=True, squeeze=False).flat, maps, strict=True
    ):
        good = table.title.startswith("ROC")
        low, high, colours = (0, 1, "RdYlGn") if good else (0, 1.5, "RdYlGn_r")
        values = np.array([row[1:] for row in table.rows], dtype=float)
        axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="none")
        axes.set_xticks(range(len(table.columns) - 1), table.columns[1:], rotation=60, fontsize=8)
        axes.set_yticks(range(len(table.rows)), [row[0] for row in table.rows], fontsize=8)
        axes.set_title(table.title, fontsize=9)


def _mean(rows: Rows, behaviour: str, scorer: str, column: str) -> float:
    here = [r for r in rows if (r.behaviour, r.scorer) == (behaviour, scorer)]
    return mean([float(getattr(row, column)) for row in here])
