"""What a scorer sees in chosen rounds of a federation: real updates to try lies on."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from fedmerit.errors import SettingError
from fedmerit.simulation.config import FederationConfig
from fedmerit.simulation.datasets import Dataset
from fedmerit.simulation.federation import Federation
from fedmerit.types import Contributions, RoundInputs, Scorer


@dataclass(frozen=True)
class _Watched:
    """A scorer that keeps the inputs it was last given."""

    scorer: Scorer
    seen: list[RoundInputs] = field(default_factory=list, repr=False)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        self.seen[:] = [inputs]
        return self.scorer.score(inputs, rng)


def observe_rounds(
    config: FederationConfig, dataset: Dataset, rounds: Collection[int]
) -> Iterator[RoundInputs]:
    """Run a federation up to the last of `rounds` and yield the scorer's inputs in each of them.

    The clients behave as `config` says: honest ones, unless it has others.
    """
    if config.scorer is None:
        raise SettingError("rounds can be observed only with a scorer, got None")
    watched = _Watched(config.scorer)
    federation = Federation(replace(config, scorer=watched), dataset)
    state = federation.start()
    while state.round < max(rounds):
        state, _ = federation.step(state)
        if state.round in rounds:
            yield from watched.seen
