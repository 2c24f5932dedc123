"""Figures of an experiment in the style of a paper.

A line is the mean over the seeds, its band reaches from the lowest to the highest seed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmerit.errors import MissingExtraError
from fedmerit.experiments.picture import save
from fedmerit.experiments.runner import Cell, Outcome, accuracies
from fedmerit.experiments.spec import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^v<>p"
_METRICS = {"accuracy": "test accuracy", "auc": "test AUC"}
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.fontsize": 8,
}
_INSIDE = 4  # lines whose legend fits beside the curves; more are listed outside
_PAPER = {"FedAvg": 0.9458, "Fed-PCA": 0.9421}  # the paper's accuracies without dishonest users


def draw(experiment: Experiment, outcomes: Sequence[Outcome], folder: Path) -> Path:
    """Draw the figure that suits the experiment and return its file."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtraError("figures need matplotlib: pip install 'fedmerit[report]'") from None
    with mpl.rc_context(_STYLE):
        if len(experiment.points) == 1:
            width = 6.6 if len(experiment.lines) > _INSIDE else 4.2
            figure = Figure(figsize=(width, 3.2), layout="constrained")
            _over_rounds(figure.subplots(), experiment, folder)
        else:
            figure = Figure(figsize=(8.0, 3.2), layout="constrained")
            left, right = figure.subplots(1, 2)
            _over_points(left, experiment, outcomes, "dishonest_weight")
            left.set(ylabel="average weight of a dishonest user", ylim=(0, None), title="(a)")
            _over_points(right, experiment, outcomes, "accuracy")
            right.set(ylabel=_METRICS[experiment.metric], title="(b)")
        figure.suptitle(experiment.title, fontsize=10)
        path = folder / f"{experiment.name}.svg"
        save(figure, path)
        return path


def _over_points(
    axes: "Axes", experiment: Experiment, outcomes: Sequence[Outcome], quantity: str
) -> None:
    for line, marker in zip(experiment.lines, _MARKERS, strict=False):
        rows: list[tuple[float, list[float]]] = []
        for point in experiment.points:
            found = [
                float(getattr(outcome, quantity))
                for outcome in outcomes
                if (outcome.line, outcome.value) == (line.name, point.value)
            ]
            known = [value for value in found if value == value]
            if known:  # without dishonest users there is no weight to show
                rows.append((point.value, known))
        places = [place for place, _ in rows]
        mean = [sum(values) / len(values) for _, values in rows]
        (drawn,) = axes.plot(places, mean, marker=marker, markersize=4, label=line.label)
        low, high = [min(v) for _, v in rows], [max(v) for _, v in rows]
        axes.fill_between(places, low, high, alpha=0.2, color=drawn.get_color())
    axes.set_xlabel(experiment.axis)
    if experiment.logarithmic:
        axes.set_xscale("log")
    axes.legend()


def _over_rounds(axes: "Axes", experiment: Experiment, folder: Path) -> None:
    rounds, point = experiment.base.rounds, experiment.points[0]
    numbers = list(range(1, rounds + 1))
    for line in experiment.lines:
        runs = [
            accuracies(Cell(line, point, seed).folder(folder), rounds) for seed in experiment.seeds
        ]
        by_round = list(zip(*runs, strict=True))
        (drawn,) = axes.plot(numbers, [sum(v) / len(v) for v in by_round], label=line.label)
        low, high = [min(v) for v in by_round], [max(v) for v in by_round]
        axes.fill_between(numbers, low, high, alpha=0.2, color=drawn.get_color())
    paper = _PAPER if experiment.metric == "accuracy" else {}
    for label, accuracy in paper.items():
        style = ":" if label == "FedAvg" else "--"
        axes.axhline(accuracy, color="grey", linewidth=0.8, linestyle=style)
        axes.text(1, accuracy, f"paper, {label}", fontsize=6, color="grey", va="bottom")
    axes.set(xlabel="round", ylabel=_METRICS[experiment.metric])
    if len(experiment.lines) > _INSIDE:
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    else:
        axes.legend(loc="lower right")
