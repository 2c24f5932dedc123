"""Rounds of federations that really trained on MNIST, and their scores with one report replaced."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedmerit.rng import stream
from fedmerit.scorers import ConditionalPCA, ExactPCA, Merit
from fedmerit.simulation.config import FederationConfig, Partition
from fedmerit.simulation.data.datasets import load
from fedmerit.simulation.observe import observe_rounds
from fedmerit.types import Contributions, RoundInputs

METHODS = ("exact", "conditional", "merit")
SEEDS, ROUNDS = (0, 1, 2), (1, 3, 5, 10)


@dataclass(frozen=True)
class _KeepingGate(ConditionalPCA):
    """Keeps its result: merit scores the round conditionally anyway, on a sample of parameters."""

    kept: list[Contributions] = field(default_factory=list)

    def score_in(
        self,
        inputs: RoundInputs,
        starts: NDArray[np.int64],
        rng: np.random.Generator,
        axes: NDArray[np.float64] | None = None,
    ) -> Contributions:
        self.kept[:] = [super().score_in(inputs, starts, rng, axes)]
        return self.kept[0]


@dataclass(frozen=True)
class RealRound:
    """What the scorer sees in one round; all clients are honest."""

    seed: int
    number: int
    inputs: RoundInputs

    @property
    def model(self) -> np.ndarray:
        """The global model."""
        return self.inputs.public[0 if self.last is None else 1]

    @property
    def last(self) -> np.ndarray | None:
        """The last global update; there is none in round 1."""
        return None if self.number == 1 else self.inputs.public[0]

    @property
    def public_updates(self) -> tuple[np.ndarray, ...]:
        """All global updates so far that the public knows, newest first."""
        known = self.inputs.public
        return () if self.last is None else (known[0], *known[2:])

    def audited(self, count: int) -> list[int]:
        """Draw clients to audit."""
        drawn = stream(self.seed, self.number, "audited").choice(
            self.inputs.clients, count, replace=False
        )
        return sorted(map(int, drawn))

    def scored(self, client: int, report: np.ndarray) -> dict[str, Contributions]:
        """Score the round with `report` in the place of the client's update."""
        reported = self.inputs.updates.copy()
        reported[client] = report
        inputs, gate = replace(self.inputs, updates=reported), _KeepingGate()
        # The same draws whatever is reported: only the report makes a difference.
        merit = Merit(gate).score(inputs, self._draws())
        exact = ExactPCA().score(inputs, self._draws())
        return {"exact": exact, "conditional": gate.kept[0], "merit": merit}

    def _draws(self) -> np.random.Generator:
        return stream(self.seed, self.number, "scoring")


def real_rounds(partition: Partition) -> Iterator[RealRound]:
    """Train the paper's federation on MNIST and yield some of its rounds."""
    dataset = load("mnist")
    for seed in SEEDS:
        # Aggregated by size, so that all scores are tried on the same updates.
        config = FederationConfig(seed=seed, partition=partition, weighting="size")
        for number, inputs in zip(ROUNDS, observe_rounds(config, dataset, ROUNDS), strict=True):
            yield RealRound(seed, number, inputs)
            print(f"{partition.kind}: seed {seed}, round {number} done", flush=True)
