"""What a scorer sees in chosen rounds of a federation: real updates to try lies on."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedmerit.errors import SettingError
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.config import FederationConfig
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.federation import Federation
from fedmerit.types import Contributions, Needs, RoundInputs, Scorer, needs_of


def observe_rounds(
    config: FederationConfig, dataset: Dataset | ClickLog, rounds: Collection[int]
) -> Iterator[RoundInputs]:
    """Run a federation up to the last of `rounds` and yield the scorer's inputs in each of them.

    The clients behave as `config` says: honest ones, unless it has others.
    """
    if config.rules.scorer is None:
        raise SettingError("rounds can be observed only with a scorer, got None")
    watched = _Watched(config.rules.scorer, [])
    rules = replace(config.rules, scorer=watched)
    federation = Federation(replace(config, rules=rules), dataset)
    state = federation.start()
    while state.round < max(rounds):
        state, _ = federation.step(state)
        if state.round in rounds:
            yield watched.seen[-1]
        watched.seen.clear()


@dataclass(frozen=True)
class _Watched:
    """A scorer that notes what it is given to look at."""

    scorer: Scorer
    seen: list[RoundInputs]

    @property
    def needs(self) -> Needs:
        """What the scorer inside asks for, and all parameters."""
        return replace(needs_of(self.scorer), sample=None)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score as the scorer inside does."""
        self.seen.append(inputs)
        return self.scorer.score(inputs, rng)
