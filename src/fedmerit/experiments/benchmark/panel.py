"""Many scorers on the same rounds: one decides, all are heard."""

from dataclasses import dataclass, field, replace

import numpy as np

from fedmerit.scorers import SCORERS, Merit, make_scorer
from fedmerit.types import Contributions, RoundInputs


@dataclass(frozen=True)
class Panel(Merit):
    """Merit, which decides, and all other scorers, whose results are kept beside it.

    It expects the same clients in every round: reputation is remembered by row.

    Attributes
    ----------
    heard : dict
        Results of every scorer by name, one per round.
    """

    heard: dict[str, list[Contributions]] = field(
        default_factory=lambda: {name: [] for name in SCORERS}, compare=False, repr=False
    )

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs in every way and return merit's result."""
        decision = super().score(inputs, rng)
        for name, results in self.heard.items():
            if name == "merit":
                results.append(decision)
                continue
            past = [result.work for result in results if result.work is not None]
            trust = np.sum([np.zeros(inputs.clients), *past], axis=0)
            seen = replace(inputs, previous=None, trust=trust)
            results.append(make_scorer(name).score(seen, rng))
        return decision
