"""Draw the pictures of the documentation: ``python -m checks.pictures`` (a minute or two).

Everything shown is computed by fedmerit on real updates of small federations, with fixed seeds.
"""

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import fedmerit
from checks import ROOT
from fedmerit.behaviours import Assignment
from fedmerit.experiments.demo import LINES, Demo, run_demo
from fedmerit.experiments.picture import save
from fedmerit.simulation.config import FederationConfig, ModelChoice, Partition
from fedmerit.simulation.data.datasets import load
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.observe import observe_rounds
from fedmerit.simulation.training.settings import LocalTraining
from fedmerit.types import RoundInputs

FOLDER = ROOT / "docs" / "pictures"
HONEST, NOISE, REPLAY = "#2a78b5", "#c8553d", "#8a5aa8"
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
}
# Ten clients, all in every round; round 4 is shown.
ROUND = 4
CONFIG = FederationConfig(
    users=10,
    per_round=10,
    rounds=ROUND,
    seed=0,
    partition=Partition("dirichlet", alpha=1.0),
    model=ModelChoice("mlp", hidden=100, dropout=0.0),
    training=LocalTraining(epochs=2, learning_rate=0.05),
    behaviours=Assignment.parse("20% stale, 20% random-update:0.01"),
)
COLOURS = {"honest": HONEST, "random-update:0.01": NOISE, "stale": REPLAY}
WORDS = {"honest": "honest", "random-update:0.01": "sends noise", "stale": "replays"}


def main() -> None:
    """Draw all pictures."""
    with mpl.rc_context(STYLE):
        dataset = load("digits")
        kinds = [behaviour.label for behaviour in Federation(CONFIG, dataset).behaviours]
        (inputs,) = observe_rounds(CONFIG, dataset, {ROUND})
        save(draw_levels(inputs, kinds), FOLDER / "levels.svg")
        save(draw_tables(inputs, kinds), FOLDER / "tables.svg")
        save(draw_explained(inputs, kinds), FOLDER / "explained.svg")
        save(draw_scores(inputs, kinds), FOLDER / "scores.svg")
        save(draw_demo(run_demo(0, lambda _line, _record: None)), FOLDER / "demo.svg")


def first(kinds: list[str], kind: str, skip: int = 0) -> int:
    """Return the first client of a kind, after `skip` others."""
    return [client for client, other in enumerate(kinds) if other == kind][skip]


def draw_levels(inputs: RoundInputs, kinds: list[str]) -> Figure:
    """Draw one update cut into eight levels, and three clients' levels side by side."""
    figure = Figure(figsize=(8.2, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    ann, bob = first(kinds, "honest"), first(kinds, "honest", 1)
    eve = first(kinds, "random-update:0.01")
    values = inputs.updates[ann][inputs.updates[ann] != 0]
    edges = np.quantile(values, np.linspace(0, 1, 9))
    shown = np.abs(values) < 0.012
    left.hist(values[shown], bins=90, color="#9bb9d3")
    for edge in edges[1:-1]:
        left.axvline(edge, color="#33475b", linewidth=0.8)
    left.set(xlabel="change of a parameter", ylabel="parameters", yticks=[])
    left.set_title("One update, cut into eight levels")
    signals = fedmerit.QuantileBins().quantise(inputs.updates, np.random.default_rng(0)).values
    moved = np.flatnonzero(inputs.updates[ann] != 0)
    sample = np.random.default_rng(0).choice(moved, 300, replace=False)
    sample = sample[np.argsort(inputs.updates[ann][sample])]
    right.imshow(
        signals[[ann, bob, eve]][:, sample], aspect="auto", cmap="viridis", interpolation="none"
    )
    right.set_yticks(range(3), ["honest client", "honest peer", "noise"])
    right.set(xlabel="300 parameters, in the order of the first client", xticks=[])
    right.set_title("Levels of three clients")
    return figure


def draw_tables(inputs: RoundInputs, kinds: list[str]) -> Figure:
    """Draw, for three pairs, how much oftener than by chance two levels meet."""
    figure = Figure(figsize=(8.2, 2.9), layout="constrained")
    axes = figure.subplots(1, 3)
    ann = first(kinds, "honest")
    others = (
        ("an honest peer", first(kinds, "honest", 1)),
        ("noise", first(kinds, "random-update:0.01")),
        ("a replayed global update", first(kinds, "stale")),
    )
    levels = fedmerit.QuantileBins().quantise(inputs.updates, np.random.default_rng(0)).values
    result = fedmerit.score(inputs.updates, method="exact", rng=0)
    for axis, (name, other) in zip(axes, others, strict=True):
        table = np.zeros((8, 8))
        np.add.at(table, (levels[ann], levels[other]), 1 / levels.shape[1])
        delta = table - np.outer(table.sum(axis=1), table.sum(axis=0))
        picture = axis.imshow(delta, cmap="RdBu", vmin=-0.02, vmax=0.02, origin="lower")
        axis.set(xlabel="its level", xticks=range(8), yticks=range(8))
        axis.set_title(f"with {name}\nscore {result.pairwise[ann, other]:.3f}")
    axes[0].set_ylabel("level of an honest client")
    figure.colorbar(picture, ax=axes, label="share minus chance", shrink=0.8)
    return figure


def draw_explained(inputs: RoundInputs, kinds: list[str]) -> Figure:
    """Draw reports against the last global update, and how much of them it explains."""
    figure = Figure(figsize=(8.2, 2.7), layout="constrained")
    axes = figure.subplots(1, 3, sharex=True)
    result = fedmerit.score(inputs.updates, public=inputs.public, layers=inputs.layers, rng=0)
    sample = np.random.default_rng(0).choice(inputs.parameters, 400, replace=False)
    for axis, kind in zip(axes, ("honest", "stale", "random-update:0.01"), strict=True):
        client = first(kinds, kind)
        axis.plot(
            inputs.public[0, sample],
            inputs.updates[client, sample],
            ".",
            color=COLOURS[kind],
            ms=2,
            rasterized=True,
        )
        share = max(float(result.evidence.explained[client]), 0.0)
        axis.set_title(f"{WORDS[kind]}: {share:.0%} explained")
        axis.set_xlabel("last global update")
    axes[0].set_ylabel("report")
    return figure


def draw_scores(inputs: RoundInputs, kinds: list[str]) -> Figure:
    """Draw the scores of all clients under the paper's idea and under merit."""
    figure = Figure(figsize=(8.2, 2.7), layout="constrained")
    axes = figure.subplots(1, 2)
    order = sorted(range(len(kinds)), key=lambda client: list(COLOURS).index(kinds[client]))
    exact = fedmerit.score(inputs.updates, method="exact", rng=0)
    merit = fedmerit.Merit().score(inputs, np.random.default_rng(0))
    titles = ("exact: agreement", "merit: agreement beyond what is public")
    for axis, result, title in zip(axes, (exact, merit), titles, strict=True):
        for place, client in enumerate(order):
            axis.bar(place, result.scores[client], color=COLOURS[kinds[client]])
        axis.set_xticks(range(len(order)), order)
        axis.set(xlabel="client", title=title)
    for kind, colour in COLOURS.items():
        axes[1].bar(0, 0, color=colour, label=WORDS[kind])
    axes[0].set_ylabel("score")
    axes[1].legend(frameon=False)
    return figure


def draw_demo(demo: Demo) -> Figure:
    """Draw whom the demo's server listened to, and what came of it."""
    figure = Figure(figsize=(8.6, 3.1), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.1, 1.1, 1))
    for axis, line in zip((left, middle), LINES, strict=True):
        draw_weights(axis, demo, line.name)
    left.set(ylabel="weight of a client", title="FedAvg: everyone counts")
    middle.set(title="fedmerit: only who worked", yticklabels=[])
    for line, colour in zip(LINES, ("#8a8f98", HONEST), strict=True):
        accuracy = demo.accuracy(line)
        right.plot(range(1, len(accuracy) + 1), accuracy, color=colour, linewidth=2)
        name = line.label.partition(",")[0]
        right.annotate(
            f"{name} {accuracy[-1]:.3f}",
            (len(accuracy), accuracy[-1]),
            xytext=(0, 8 if colour == HONEST else -16),
            textcoords="offset points",
            ha="right",
            color=colour,
            weight="bold",
        )
    right.set(xlabel="round", title="Test accuracy", ylim=(0, 1), xticks=range(0, 21, 5))
    return figure


def draw_weights(axis: Axes, demo: Demo, line: str) -> None:
    """Draw each client's mean weight under one line, kinds side by side."""
    kinds = {"honest": "honest", "random-model:0.05": "made\nup", "noise:0.1": "all\nnoise"}
    colours = dict(zip(kinds, (HONEST, NOISE, "#d9a441"), strict=True))
    seen: dict[tuple[int, int], list[float]] = {}
    for record in demo.records[line]:
        for client in record.clients:
            place = list(kinds).index(str(client.behaviour))
            seen.setdefault((place, int(client.client)), []).append(client.weight)
    bars = sorted((place, -float(np.mean(weights))) for (place, _), weights in seen.items())
    ticks: dict[int, list[float]] = {}
    for position, (place, weight) in enumerate(bars):
        x = position + 1.2 * place
        colour = list(colours.values())[place]
        axis.bar(x, -weight, color=colour, width=0.85)
        if weight == 0:
            axis.text(x, 0.001, "0", ha="center", color=colour, weight="bold")
        ticks.setdefault(place, []).append(x)
    axis.set_xticks([float(np.mean(xs)) for xs in ticks.values()], list(kinds.values()), fontsize=8)
    axis.set_ylim(0, 0.12)
    axis.tick_params(axis="x", length=0)


if __name__ == "__main__":
    main()
