"""The page of the panel's studies, from their tables: `python -m checks.studies.panel.page`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from checks import ROOT
from checks.studies.panel import attacks, clicks, cost, error, flags, liars, worth
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

{data}, 20 clients, 30 % of them dishonest, ten rounds, four pairs a judge and round; {seeds}. AUC:
the chance that an honest client's worth exceeds a dishonest one's. *Harm*: share said to harm the
model by the end; *merit*: share that the score flags beside those. The dishonest judge too, on the
data that they train on."""
_CLICKS = """## Worthless labels on a recommender

DIN on {data}: 100 users with ten to a few hundred impressions each, 20 a round, 50 rounds, and
beside them, as 30 % of a round, accounts whose labels are worthless; {seeds}. Everybody takes part
in about ten rounds. Judges tell their loss, cut off at 2, four pairs a round. AUC of worth: the
chance that a user's exceeds an account's. The model's AUC on test data is the mean after the last
ten rounds. No score sees such labels ([DIN](din.md))."""
_LIARS = """## Liars on the bench

{data}, 20 clients with 0 to 70 % wrong labels, ten rounds, four pairs; the same rounds with and
without lies; {seeds}. Rank correlation of worth with what it is by one voice each without any lies;
*liars gain*: how far their own worth rises, in standard deviations of the clients' worth.
*Opposite* lies about everything, *sly* about candidates only, *noise* at random, *praise* adds
three deviations for the half with more friends in it."""
_FLAGS = """## Named without a reason

20 honest clients, {data}, one pair a judge and round; how many were ever said to harm the model;
{seeds}."""
_ERROR = """## How often the flag is wrong

By simulation, at the edge of what is no harm: two of eight clients add exactly nothing, eight
judges, one pair a round. *Taste* is what judges think of a client for ever, apart from noise. Share
of runs in which one of the two was ever named; {seeds}."""
_COST = """## What it costs

{data}, 20 clients, all in one process; {seeds}; medians of five rounds. Models sent to a judge in a
round, where plain evaluation sends one. Seconds per round, to be compared with each other only:
*panel* is making and evaluating all candidates and estimating values; *plain* is every client's
evaluation of the new model alone. The model is small: what exceeds so many times *plain* as models
are sent is drawing questions, making candidates and estimating."""
DATA = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "digits": "Digits",
    "kuairand": "KuaiRand",
    "movielens-1m": "MovieLens-1M",
}


def main() -> None:
    parts = [
        "# The panel: what a client is worth, judged by the others",
        "Written by `python -m checks.studies.panel.page` from the tables beside it, which "
        "`python -m checks.studies.panel worth` wrote, and `attacks`, `liars`, `flags`, `error`, "
        "`cost`, `clicks`. Nothing was chosen on these seeds, but earlier versions were run on "
        "them, and attacks were seen on seed 820 before the last change; for `error`, 880 was "
        "looked at and 881 took its place. For `clicks`, loss or AUC as the metric and 100 users "
        "were looked at on seed 20 of KuaiRand. "
        "What the panel is: [What is a client worth?](../what-is-a-client-worth.md)",
        _earlier(),
        _worth(),
        _attacks(),
        _by_cell(
            clicks.STUDY,
            _CLICKS,
            ("auc_10", "auc_25", "auc_50", "found", "accused", "panel", "default", "home"),
            (
                *("labels", "worth, round 10", "round 25", "round 50"),
                *("accounts: harm", "users: harm"),
                *("model's AUC", "without panel", "without them"),
            ),
        ),
        _liars(),
        _by_cell(
            flags.STUDY,
            _FLAGS,
            ("rounds", "named_1", "named_5", "largest"),
            ("honest clients", "rounds", "named at 1 %", "named at 5 %", "largest e-value"),
        ),
        _by_cell(
            error.STUDY,
            _ERROR,
            ("runs", "rounds", "first_1", "first_5"),
            ("judges", "runs", "rounds", "at 1 %", "at 5 %"),
        ),
        _by_cell(
            cost.STUDY,
            _COST,
            ("models", "panel", "plain", "training"),
            ("pairs", "models", "panel", "plain", "training"),
        ),
    ]
    _draw(FOLDER / "panel.svg")
    write_page(FOLDER / "panel.md", "\n\n".join(part for part in parts if part) + "\n", SOURCES)


def _earlier() -> str:
    """Say which tables an earlier version made."""
    old = [
        f"{module.STUDY.name} ({DATA[data]})"
        for module in (worth, attacks, clicks, liars, flags, error, cost)
        for data in DATA
        if any(row.code != SOURCES.code.digest for row in _rows(module.STUDY, data))
    ]
    return f"Made by an earlier version: {', '.join(old)}." if old else ""


def _rows(study: Study, data: str) -> list[Any]:
    return read_rows(FOLDER / f"panel-{study.name}-{data}.csv", study.row)


def _worth() -> str:
    text = _WORTH
    for data in DATA:
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


def _by_data(study: Study, text: str, table: Callable[[Sequence[Any]], Table]) -> str:
    """Return a table for each data set that the study was run on, the text before it."""
    parts: list[str] = []
    for data, name in DATA.items():
        rows = _rows(study, data)
        if rows:
            about = text.format(data=name, seeds=_seeds(rows))
            # One heading is enough.
            about = about.partition("\n\n")[2] if parts and about.startswith("#") else about
            parts.append(f"{about}\n\n{table(rows).markdown()}")
    return "\n\n".join(parts)


def _by_cell(study: Study, text: str, numbers: Sequence[str], titles: tuple[str, ...]) -> str:
    """Return the means of `numbers` in every cell of a study, for each data set."""
    return _by_data(study, text, lambda rows: _means(rows, study.cells, numbers, titles))


def _attacks() -> str:
    numbers = (
        *("auc_1", "auc_2", "auc_5", "auc", "found", "accused", "merit", "after"),
        *("panel", "default", "fedavg", "home"),
    )
    titles = (
        *("AUC, round 1", "round 2", "round 5", "round 10"),
        *("dishonest: harm", "honest: harm", "dishonest: merit", "after round"),
        *("accuracy", "without panel", "equal weights", "without them"),
    )
    return _by_cell(attacks.STUDY, _ATTACKS, numbers, ("", *titles))


def _liars() -> str:
    return _by_data(liars.STUDY, _LIARS, _lies)


def _lies(rows: Sequence[liars.LiarRow]) -> Table:
    numbers = ("honest", "plain", "trusted", "gained", "voice", "honest_voice")
    lines = []
    for cell in liars.STUDY.cells:
        for lie in liars.LIES:
            for share in liars.SHARES:
                chosen = [r for r in rows if (r.cell, r.lie, r.share) == (cell, lie, share)]
                if chosen:
                    means = (mean([getattr(r, n) for r in chosen]) for n in numbers)
                    lines.append((f"{cell}, {lie}", f"{share:.0%}", *means))
    titles = (
        *("lie", "liars", "no liars", "one voice each", "panel"),
        *("liars gain", "their voice", "honest voice"),
    )
    return Table("", titles, tuple(lines))


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
    known = [data for data in DATA if _rows(worth.STUDY, data)]
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
