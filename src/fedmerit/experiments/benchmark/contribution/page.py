"""The contribution benchmark's page: tables over seeds, goals met and missed, and the picture."""

from collections.abc import Sequence
from typing import Any

from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.rows import ContributionRow
from fedmerit.experiments.benchmark.statistics import mean, spread

RANKED = ("label noise", "quantity", "classes")
TEST_BASED = ("shapley", "individual", "leave-one-out")
Rows = Sequence[ContributionRow]

_SETTINGS = """\
Eight clients, everyone in every round, an MLP with 200 hidden units (no dropout), SGD with learning
rate 0.01 and momentum 0.5, batches of 10, 2 local epochs, {rounds} rounds, plain mean of the eight
updates, seeds {seeds}. *Label noise*: 0 to 70 % of the labels wrong. *Quantity*: 100 to 2,000
samples. *Classes*: 2 to 9 classes. *Rare class*: the last client alone holds one class, half of its
samples. Clients hold 500 samples unless said otherwise (in proportion fewer of digits). A client's
score is the mean of its scores over the rounds. Shapley values are exact (all 256 sets of clients,
accuracy of the mean update on up to 2,000 test samples), summed over the rounds. `shapley`,
`individual` and `leave-one-out` need a labelled test set; all others see updates only."""


def tables(rows: Rows) -> list[Table]:
    """Return means over seeds with their spread."""
    scorers = _scorers(rows)
    return [
        Table(
            "Spearman's rank correlation with the true order, mean (sd over seeds)",
            ("scorer", *RANKED),
            tuple((s, *(_told(rows, s, setup, "truth") for setup in RANKED)) for s in scorers),
        ),
        Table(
            "Spearman's rank correlation with exact Shapley values of accuracy, mean (sd)",
            ("scorer", *RANKED),
            tuple((s, *(_told(rows, s, setup, "shapley") for setup in RANKED)) for s in scorers),
        ),
        Table(
            "What a ninth client gets, relative to the mean of the eight, mean (sd)",
            ("scorer, set-up", "honest, 40 samples", "lazy: replay + 40", "replay", "lazy / 40"),
            tuple(
                (
                    f"{s}, {setup}",
                    *(_told(rows, s, setup, v) for v in ("small", "lazy", "replayer")),
                    _values_mean(rows, s, setup, "lazy") / _values_mean(rows, s, setup, "small"),
                )
                for s in scorers
                if _values(rows, s, RANKED[0], "lazy")
                for setup in RANKED
            ),
        ),
        Table(
            "What the client with a rare class gets, relative to the mean of the others, mean (sd)",
            ("scorer", "rare class"),
            tuple((s, _told(rows, s, "rare class", "last")) for s in scorers if s != "krum"),
        ),
    ]


def goals(rows: Rows) -> Table:
    """Return every goal that was set before, and whether merit met it."""
    wanted = (
        ("truth", "label noise", 0.80),
        ("truth", "quantity", 0.95),
        ("truth", "classes", 0.85),
        ("shapley", "quantity", 0.90),
        ("shapley", "classes", 0.59),
    )
    lines: list[tuple[object, ...]] = []
    for quantity, setup, least in wanted:
        reached = _values_mean(rows, "merit", setup, quantity)
        better = [
            f"{s} {_values_mean(rows, s, setup, quantity):.3f}"
            for s in _scorers(rows)
            if s not in ("merit", quantity)
            and _values_mean(rows, s, setup, quantity) > reached + 5e-4
        ]
        met = "yes" if reached >= least else f"no, short by {least - reached:.3f}"
        what = "true order" if quantity == "truth" else "Shapley"
        better_told = ", ".join(better) or "-"
        lines.append((f"{what}, {setup}", f"at least {least:.2f}", reached, met, better_told))
    for setup in RANKED:
        few, lazy = (_values_mean(rows, "merit", setup, v) for v in ("small", "lazy"))
        met = "yes" if lazy <= 2 * few else "no"
        lines.append((f"lazy / honest with 40 samples, {setup}", "at most 2", lazy / few, met, "-"))
    return Table("Goals, merit", ("goal", "wanted", "reached", "met", "better"), tuple(lines))


def page(rows: Rows) -> str:
    """Describe settings and results."""
    seeds = sorted({row.seed for row in rows})
    named = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
    parts = [_SETTINGS.format(rounds=rows[0].rounds, seeds=named)]
    for table in (goals(rows), *tables(rows), _by_seed(rows, seeds)):
        parts.append(f"## {table.title}\n\n{table.markdown()}")
    return "\n\n".join(parts)


def draw(rows: Rows, figure: Any) -> None:
    """Draw rank correlations by scorer and set-up; a line has the lowest and the highest seed."""
    scorers = _scorers(rows)
    for axes, (quantity, title) in zip(
        figure.subplots(1, 2, sharey=True),
        (("truth", "with the true order"), ("shapley", "with exact Shapley values")),
        strict=True,
    ):
        for place, setup in enumerate(RANKED):
            for line, scorer in enumerate(scorers):
                values = _values(rows, scorer, setup, quantity)
                height, colour = line + 0.25 * (place - 1), f"C{place}"
                if values:
                    axes.plot((min(values), max(values)), (height, height), color=colour, alpha=0.4)
                label = setup if line == 0 else None
                axes.plot(mean(values), height, "D", color=colour, ms=4, label=label)
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.set(xlim=(-1.05, 1.05), xlabel="Spearman", title=title)
        axes.set_yticks(range(len(scorers)), scorers, fontsize=8)
        axes.grid(axis="x", alpha=0.3)
    figure.axes[0].invert_yaxis()
    figure.axes[0].legend(fontsize=8, loc="lower left")


def _by_seed(rows: Rows, seeds: Sequence[int]) -> Table:
    columns = [(setup, quantity) for setup in RANKED for quantity in ("truth", "shapley")]
    return Table(
        "Every seed, merit",
        ("seed", *(f"{setup}, {quantity}" for setup, quantity in columns)),
        tuple(
            (
                str(seed),
                *(
                    mean(_values([r for r in rows if r.seed == seed], "merit", setup, quantity))
                    for setup, quantity in columns
                ),
            )
            for seed in seeds
        ),
    )


def _scorers(rows: Rows) -> list[str]:
    names = dict.fromkeys(row.scorer for row in rows)
    return ["merit", *(n for n in names if n not in ("merit", *TEST_BASED)), *TEST_BASED]


def _values(rows: Rows, scorer: str, setup: str, quantity: str) -> list[float]:
    found = [getattr(r, quantity) for r in rows if (r.scorer, r.setup) == (scorer, setup)]
    return [value for value in found if value == value]


def _values_mean(rows: Rows, scorer: str, setup: str, quantity: str) -> float:
    return mean(_values(rows, scorer, setup, quantity))


def _told(rows: Rows, scorer: str, setup: str, quantity: str) -> str:
    values = _values(rows, scorer, setup, quantity)
    if not values:
        return "-"
    return f"{mean(values):.3f} ({spread(values):.3f})" if len(values) > 1 else f"{values[0]:.3f}"
