"""The null benchmark's page: observed rates beside what the rules promise."""

from collections.abc import Sequence
from typing import Any

from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.rows import NullRow
from fedmerit.experiments.benchmark.statistics import Rate, rate

Rows = Sequence[NullRow]

_SETTINGS = """\
Updates of ten clients from four real rounds (MLP with 200 hidden units, the paper's label shards
and training, one local epoch); per null round one of them is drawn and about 5,000 of its
parameters, from every layer. Null reports have the marginals of the clients' own updates:
*permuted* over all parameters, *permuted in layers*, or *drawn* independently with replacement;
*replay + noise* is the last global update with Gaussian noise of 0.3 of its spread. The layer and
the last update are public, so the second and the last are null for `conditional` only; `exact` has
no p-values, so only its pairs are looked at. Every round is scored twice: with one null client
among nine real ones, and with ten null ones. Rules:

- *pair*: z of a pair above the normal quantile;
- *client*: the p-value of a client by the agreement of a fifth of its peers;
- *any join*: any of the round's pairs joined into a cohort (family-wise over all pairs);
- *any discovery*: any client accepted at that false discovery rate.

Intervals are 95 % Wilson intervals that count pairs and clients of one round as independent; the
rules for a client and for a round are bounds that hold under any dependence, so they may stay
below their level."""


def tables(rows: Rows) -> list[Table]:
    """Return observed rates over all kinds of null reports, and by kind."""
    return [
        _table("Observed rates (95 % interval)", rows, ("scorer", "rule")),
        _table("By kind of null report", rows, ("scorer", "kind", "rule")),
    ]


def page(rows: Rows) -> str:
    """Describe settings and results."""
    rounds = sum(
        row.trials
        for row in rows
        if (row.scorer, row.rule) == ("conditional", "any join, all null")
    ) // len({row.level for row in rows})
    worst = [
        f"{' / '.join(map(str, key))}: {found.share:.4f} at {level:g}"
        for (key, level), found in pooled(rows, ("scorer", "rule")).items()
        if found.share > 2 * level
    ]
    told = "; ".join(worst) or "none"
    parts = [
        _SETTINGS,
        f"{rounds:,} null rounds. Rules above twice their level: {told}.",
        *(f"## {table.title}\n\n{table.markdown()}" for table in tables(rows)),
    ]
    return "\n\n".join(parts)


def draw(rows: Rows, figure: Any) -> None:
    """Draw observed over nominal rates, with intervals."""
    found = pooled(rows, ("scorer", "rule"))
    scorers = list(dict.fromkeys(row.scorer for row in rows))
    rules = list(dict.fromkeys(row.rule for row in rows))
    for axes, scorer in zip(figure.subplots(1, len(scorers), sharey=True), scorers, strict=True):
        for place, rule in enumerate(rules):
            points = [(lv, r) for (key, lv), r in found.items() if key == (scorer, rule)]
            shifted = [level * 1.06 ** (place - len(rules) / 2) for level, _ in points]
            ratio = [r.share / level for level, r in points]
            below = [(r.share - r.low) / level for level, r in points]
            above = [(r.high - r.share) / level for level, r in points]
            axes.errorbar(shifted, ratio, yerr=[below, above], fmt="o", ms=4, lw=1, label=rule)
        axes.axhline(1, color="grey", linewidth=0.8)
        axes.axhline(2, color="grey", linewidth=0.8, linestyle=":")
        axes.set(xscale="log", xlabel="promised rate", title=scorer, ylim=(0, 4))
    figure.axes[0].set_ylabel("observed / promised")
    figure.axes[0].legend(fontsize=7)


def pooled(rows: Rows, columns: tuple[str, ...]) -> dict[tuple[tuple[object, ...], float], Rate]:
    """Add up rows that agree in `columns` and level."""
    counts: dict[tuple[tuple[object, ...], float], list[int]] = {}
    for row in rows:
        key = (tuple(getattr(row, column) for column in columns), row.level)
        total = counts.setdefault(key, [0, 0])
        total[0] += row.rejections
        total[1] += row.trials
    return {key: rate(rejected, trials) for key, (rejected, trials) in counts.items()}


def _table(title: str, rows: Rows, columns: tuple[str, ...]) -> Table:
    found = pooled(rows, columns)
    levels = sorted({level for _, level in found}, reverse=True)
    names = dict.fromkeys(key for key, _ in found)
    return Table(
        title,
        (", ".join(columns), "trials", *(f"at {level:.1%}" for level in levels)),
        tuple(
            (
                ", ".join(map(str, name)),
                found[name, levels[0]].trials,
                *(_told(found[name, level]) for level in levels),
            )
            for name in sorted(names, key=str)
        ),
    )


def _told(found: Rate) -> str:
    return f"{found.share:.3%} ({found.low:.3%} to {found.high:.3%})"
