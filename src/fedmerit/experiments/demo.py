"""A small federation that shows the whole idea in a minute: digits, and not everybody is honest."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedmerit.behaviours import Assignment
from fedmerit.errors import MissingExtraError
from fedmerit.experiments.picture import save
from fedmerit.experiments.spec import DEFAULT, FEDAVG, Line
from fedmerit.incentive.rewards import PositiveShare
from fedmerit.simulation.config import FederationConfig, ModelChoice, Partition
from fedmerit.simulation.data.datasets import load
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.run import run
from fedmerit.simulation.training.settings import LocalTraining
from fedmerit.types import RoundRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = (FEDAVG, DEFAULT)
BEHAVIOURS = "20% random-model:0.05, 20% noise:0.1"
REWARD = PositiveShare(budget=10_000)
CONFIG = FederationConfig(
    users=20,
    per_round=20,
    rounds=20,
    partition=Partition("dirichlet", alpha=1.0),
    model=ModelChoice("mlp", hidden=100, dropout=0.0),
    training=LocalTraining(epochs=2, learning_rate=0.05),
    behaviours=Assignment.parse(BEHAVIOURS),
)


@dataclass(frozen=True)
class Demo:
    """The records of the same federation under each line."""

    records: dict[str, list[RoundRecord]]

    def accuracy(self, line: Line) -> list[float]:
        """Test accuracy after each round."""
        return [record.metrics["accuracy"] for record in self.records[line.name]]

    def clients(self) -> list[tuple[str, str, float, float, str]]:
        """Per client under the default: name, behaviour, mean score, weight, last accusation."""
        rows: dict[str, list[tuple[str | None, float, float, str]]] = {}
        for record in self.records[DEFAULT.name]:
            for c in record.clients:
                why = c.reason if c.flagged else ""
                rows.setdefault(c.client, []).append((c.behaviour, c.score, c.weight, why))
        return [
            (
                client,
                seen[0][0] or "",
                sum(row[1] for row in seen) / len(seen),
                sum(row[2] for row in seen) / len(seen),
                next((row[3] for row in reversed(seen) if row[3]), ""),
            )
            for client, seen in sorted(rows.items(), key=lambda item: int(item[0]))
        ]


def run_demo(seed: int, on_round: Callable[[Line, RoundRecord], None]) -> Demo:
    """Run the federation once per line, with the same data, clients and draws."""
    dataset = load("digits")
    records: dict[str, list[RoundRecord]] = {}
    for line in LINES:
        kept: list[RoundRecord] = []
        config = replace(
            CONFIG,
            seed=seed,
            rules=replace(line.rules, reward=None if line.rules.scorer is None else REWARD),
        )

        def keep(record: RoundRecord, line: Line = line, kept: list[RoundRecord] = kept) -> None:
            kept.append(record)
            on_round(line, record)

        run(Federation(config, dataset), on_round=keep)
        records[line.name] = kept
    return Demo(records)


def draw_demo(demo: Demo, path: Path) -> None:
    """Draw accuracy over rounds, and what each client was weighed."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtraError("figures need matplotlib: pip install 'fedmerit[report]'") from None
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for line in LINES:
        accuracy = demo.accuracy(line)
        left.plot(range(1, len(accuracy) + 1), accuracy, label=line.label)
    left.set(xlabel="round", ylabel="test accuracy", ylim=(0, 1), title=f"digits, {BEHAVIOURS}")
    left.title.set_fontsize(9)
    left.xaxis.get_major_locator().set_params(integer=True)
    left.legend()
    _draw_weights(right, demo)
    save(figure, path)


def _draw_weights(axes: "Axes", demo: Demo) -> None:
    rows = sorted(demo.clients(), key=lambda row: (row[1], -row[3]))
    colours = {name: f"C{i}" for i, name in enumerate(dict.fromkeys(row[1] for row in rows))}
    for place, (_, behaviour, _, weight, _) in enumerate(rows):
        axes.bar(place, weight, color=colours[behaviour])
    for behaviour, colour in colours.items():
        axes.bar(0, 0, color=colour, label=behaviour)
    axes.axhline(1 / len(rows), color="grey", linestyle=":", linewidth=1)
    axes.text(len(rows) - 0.5, 1 / len(rows), "FedAvg", ha="right", va="bottom", fontsize=8)
    axes.set(xlabel="client", ylabel="mean weight", title="fedmerit: who is weighed how much")
    axes.title.set_fontsize(9)
    axes.set_xticks(range(len(rows)), [row[0] for row in rows], fontsize=7)
    axes.legend(fontsize=8)
