"""One cell of the benchmark: a task, a behaviour and a seed, under four servers."""

from pathlib import Path

from fedmerit.behaviours import parse_behaviour
from fedmerit.experiments.benchmark.models.baselines import Baselines, Finished
from fedmerit.experiments.benchmark.models.combine import (
    coordinate_median,
    difference,
    fedavg,
    same_bits,
)
from fedmerit.experiments.benchmark.models.federation import (
    SHARE,
    Cast,
    accuracy,
    federate,
    make_cast,
)
from fedmerit.experiments.benchmark.models.ours import Ours, judge
from fedmerit.experiments.benchmark.models.tasks.registry import make_task
from fedmerit.experiments.benchmark.models.training import sent_state
from fedmerit.experiments.benchmark.rows import ModelRow

# Who sends noise, or something made of what is public, and trains nothing.
RIDERS = (
    "random-update",
    "random-model",
    "zero",
    "stale",
    "older:2",
    "older:5",
    "averaged",
    "extrapolated",
    "renaming",
    "advanced-delta",
    "adaptive",
    "advanced-rider",
    "disguised",
    "sign-mimic",
    "informed",
)
# What the dishonest do, one at a time. Settings follow the name, as everywhere.
BEHAVIOURS = (
    "honest",
    *RIDERS,
    "colluders",
    "rotating",
    "mixed",
    "lazy",
    "copies",
    "copies:0.2",
    "fake-data",
    "noise:0.01",
    "inflated-size:10",
    "boost:2",
    "boost:3",
    "boost:100",
    "label-flip",
    "loud-flip",
    "sign-flip",
)
QUICK = ("honest", "stale", "random-update", "copies:0.2", "boost:2", "label-flip", "sign-flip")


class Bench:
    """A task with the draws of a seed; what all its cells share is run once.

    Parameters
    ----------
    name : str
    seed : int
    quick : bool
        Whether little data will do.
    folder : path, optional
        Where data is looked for first.
    kept : path, optional
        Where federations without scores are kept, so that they need not run again.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        *,
        quick: bool,
        folder: Path | None = None,
        kept: Path | None = None,
    ) -> None:
        self.task = make_task(name, seed, quick=quick, folder=folder)
        self.seed, self.quick = seed, quick
        self._baselines = Baselines(self.task, seed, kept)
        self._home: dict[tuple[int, ...], Finished] = {}

    def run(self, behaviour: str, share: float = SHARE) -> ModelRow:
        """Run one behaviour of a share of the clients under every server, with the same draws."""
        task, seed = self.task, self.seed
        cast = make_cast(task, parse_behaviour(behaviour), seed, share)
        plain = self._baselines.run(cast, fedavg, with_model=not cast.liars)
        home = self._at_home(cast) if cast.liars else plain
        middle = self._baselines.run(cast, coordinate_median)
        ours = Ours(sent_state(task.module), seed)
        states = federate(task, cast, seed, ours.settle)
        return ModelRow(
            task=task.name,
            behaviour=behaviour,
            seed=seed,
            share=share,
            quick=self.quick,
            clients=len(task.clients),
            liars=len(cast.liars),
            rounds=task.rounds,
            accuracy=accuracy(task, states),
            fedavg=plain.accuracy,
            median=middle.accuracy,
            home=home.accuracy,
            same_bits=same_bits(states[-1], home.model),
            difference=difference(states[-1], home.model),
            **vars(judge(ours.results, ours.named, cast, task.sizes)),
        )

    def _at_home(self, cast: Cast) -> Finished:
        """Run FedAvg without the dishonest, which is the same whatever they would do."""
        if cast.others not in self._home:
            finished = self._baselines.run(cast, fedavg, cast.others, with_model=True)
            self._home[cast.others] = finished
        return self._home[cast.others]
