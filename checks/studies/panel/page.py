"""The page of the panel's studies, from their tables: `python -m checks.studies.panel.page`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checks import ROOT
from checks.studies.panel import attacks, flags, liars, worth
from checks.studies.panel.cells import SOURCES, Study
from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.files import read_rows
from fedmerit.experiments.benchmark.statistics import mean
from fedmerit.experiments.fingerprint import write_page
from fedmerit.experiments.picture import save

FOLDER = ROOT / "docs" / "results"
METHODS = (
    *("panel, 1 a round", "panel, 4 a round", "merit", "cosine", "leave-one-out", "individual"),
)

_WORTH = """## Does it rank clients as Shapley values do?

Eight clients, ten rounds, the set-ups of [contribution](contribution.md). Spearman's rank
correlation of summed values with exact Shapley values of test accuracy, which need test data; in
brackets with the order that the set-up made. Judges use the data that they train on. Individual and
leave-one-out use test data as well.

![rank correlation by method and set-up](panel.svg)"""
_ATTACKS = """## Who is found, and what the model is worth then

MNIST, 20 clients, 30 % of them dishonest, ten rounds, four pairs a judge and round; {seeds}. AUC:
the chance that an honest client's worth exceeds a dishonest one's. *Harm*: share said to harm the
model by the end; *merit*: share that the score flags beside those. The dishonest judge too, on the
data that they train on. Where all are honest, "dishonest" are those who otherwise would be."""
_LIARS = """## Liars on the bench

MNIST, 20 clients with 0 to 70 % wrong labels, ten rounds, four pairs; the same rounds with and
without lies; {seeds}. Rank correlation of worth with the share of right labels; *liars gain*: how
far their own worth rises, in accuracy. *Opposite* lies about everything, *sly* about candidates
only, *noise* at random, *praise* adds three deviations for the half with more friends in it. Wrong
labels explain little of what these clients are worth, as the column without liars shows: voices and
gains say more here than correlations."""
_FLAGS = """## Named without a reason

20 honest clients, MNIST, one pair a judge and round; how many were ever said to harm the model;
{seeds}."""


def main() -> None:
    parts = [
        "# The panel: what a client is worth, judged by the others",
        "Written by `python -m checks.studies.panel.page` from the tables beside it, which "
        "`python -m checks.studies.panel worth` (and `attacks`, `liars`, `flags`) wrote. "
        "What the panel is: [What is a client worth?](../what-is-a-client-worth.md)",
        _worth(),
        _attacks(),
        _liars(),
        _flags(),
    ]
    _draw(FOLDER / "panel.svg")
    write_page(FOLDER / "panel.md", "\n\n".join(part for part in parts if part) + "\n", SOURCES)


def _rows(study: Study, data: str) -> list[Any]:
    return read_rows(FOLDER / f"panel-{study.name}-{data}.csv", study.row)


def _worth() -> str:
    text = _WORTH
    for data in ("mnist", "digits"):
        rows = _rows(worth.STUDY, data)
        if rows:
            text += f"\n\n{_by_method(rows, data).markdown()}\n\n{_rare(rows)}"
    return text


def _by_method(rows: Sequence[worth.WorthRow], data: str) -> Table:
    setups = [cell for cell in worth.STUDY.cells if cell != "rare class"]

    def cell(method: str, setup: str) -> str:
        found = [row for row in rows if row.method == method and row.cell == setup]
        return f"{mean([r.shapley for r in found]):.2f} ({mean([r.truth for r in found]):.2f})"

    seeds = len({row.seed for row in rows if row.cell == setups[-1]})
    return Table(
        data,
        (f"{data}, {seeds} seeds", *setups),
        tuple((m, *(cell(m, setup) for setup in setups)) for m in ("shapley", *METHODS)),
    )


def _rare(rows: Sequence[worth.WorthRow]) -> str:
    """Return what the client with a class of its own is worth, relative to the others."""

    def last(method: str) -> float:
        found = [r.last for r in rows if r.method == method and r.cell == "rare class"]
        return mean(found)

    told = ", ".join(f"{m} {last(m):.2f}" for m in ("shapley", *METHODS[:3]))
    return (
        "The client that alone holds one class is given, relative to the mean of the others: "
        f"{told}. Nobody else can judge its class."
    )


def _attacks() -> str:
    rows = _rows(attacks.STUDY, "mnist")
    if not rows:
        return ""
    numbers = (
        "auc_2",
        "auc",
        "found",
        "accused",
        "merit",
        "after",
        "panel",
        "default",
        "fedavg",
        "home",
    )
    titles = (
        *("AUC, round 2", "AUC, round 10", "dishonest: harm", "honest: harm", "dishonest: merit"),
        *("after round", "accuracy", "without panel", "FedAvg", "FedAvg without them"),
    )
    table = _means(rows, attacks.STUDY.cells, numbers, ("", *titles))
    return f"{_ATTACKS.format(seeds=_seeds(rows))}\n\n{table.markdown()}"


def _liars() -> str:
    rows = _rows(liars.STUDY, "mnist")
    if not rows:
        return ""
    lines = []
    for cell in liars.STUDY.cells:
        for lie in liars.LIES:
            for share in liars.SHARES:
                chosen = [r for r in rows if (r.cell, r.lie, r.share) == (cell, lie, share)]
                numbers = ("honest", "plain", "trusted", "gained", "voice", "honest_voice")
                if chosen:
                    means = (mean([getattr(r, n) for r in chosen]) for n in numbers)
                    lines.append((f"{cell}, {lie}", f"{share:.0%}", *means))
    titles = (
        *("lie", "liars", "no liars", "one voice each", "panel"),
        *("liars gain", "their voice", "honest voice"),
    )
    table = Table("", titles, tuple(lines))
    return f"{_LIARS.format(seeds=_seeds(rows))}\n\n{table.markdown()}"


def _flags() -> str:
    rows = _rows(flags.STUDY, "mnist")
    if not rows:
        return ""
    table = _means(
        rows,
        flags.STUDY.cells,
        ("rounds", "named_1", "named_5", "largest"),
        ("honest clients", "rounds", "named at 1 %", "named at 5 %", "largest e-value"),
    )
    return f"{_FLAGS.format(seeds=_seeds(rows))}\n\n{table.markdown()}"


def _means(
    rows: Sequence[Any], cells: Sequence[str], numbers: Sequence[str], titles: tuple[str, ...]
) -> Table:
    def by_cell(cell: str) -> list[Any]:
        return [row for row in rows if row.cell == cell]

    lines = [
        (cell, *(mean([float(getattr(r, n)) for r in by_cell(cell)]) for n in numbers))
        for cell in cells
        if by_cell(cell)
    ]
    return Table("", titles, tuple(lines))


def _seeds(rows: Sequence[Any]) -> str:
    seeds = sorted({row.seed for row in rows})
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def _draw(path: Path) -> None:
    from matplotlib.figure import Figure

    setups = [cell for cell in worth.STUDY.cells if cell != "rare class"]
    known = [data for data in ("mnist", "digits") if _rows(worth.STUDY, data)]
    figure = Figure(figsize=(8.5, 3.2), layout="constrained")
    for place, data in enumerate(known):
        axis = figure.add_subplot(1, len(known), place + 1)
        rows = _rows(worth.STUDY, data)
        for number, method in enumerate(METHODS):
            found = [
                mean([r.shapley for r in rows if r.method == method and r.cell == setup])
                for setup in setups
            ]
            places = [at + 0.13 * number for at in range(len(setups))]
            axis.bar(places, found, 0.12, label=method)
        axis.axhline(0.9, color="#999999", lw=0.8, ls="--")
        axis.set_xticks([at + 0.32 for at in range(len(setups))], setups)
        axis.set(title=data, ylim=(-0.2, 1.0))
    axis.legend(fontsize=7, loc="lower right")
    save(figure, path)


if __name__ == "__main__":
    main()
