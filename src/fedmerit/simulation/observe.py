"""What a scorer sees in chosen rounds of a federation: real updates to try lies on."""

from collections.abc import Collection, Iterator
from copy import copy
from dataclasses import replace

import numpy as np

from fedmerit.errors import SettingError
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.config import FederationConfig
from fedmerit.simulation.datasets import Dataset
from fedmerit.simulation.federation import Federation
from fedmerit.types import Contributions, RoundInputs, Scorer


def observe_rounds(
    config: FederationConfig, dataset: Dataset | ClickLog, rounds: Collection[int]
) -> Iterator[RoundInputs]:
    """Run a federation up to the last of `rounds` and yield the scorer's inputs in each of them.

    The clients behave as `config` says: honest ones, unless it has others.
    """
    if config.scorer is None:
        raise SettingError("rounds can be observed only with a scorer, got None")
    seen: list[RoundInputs] = []
    federation = Federation(replace(config, scorer=_watched(config.scorer, seen)), dataset)
    state = federation.start()
    while state.round < max(rounds):
        state, _ = federation.step(state)
        if state.round in rounds:
            yield seen[-1]
        seen.clear()


def _watched(scorer: Scorer, seen: list[RoundInputs]) -> Scorer:
    """Return a scorer of the same type, which decides what the round loop gives it to look at."""
    watched = copy(scorer)

    def score(inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        seen.append(inputs)
        return scorer.score(inputs, rng)

    object.__setattr__(watched, "score", score)  # scorers are frozen
    return watched
