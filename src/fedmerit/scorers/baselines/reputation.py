"""Reputation by agreement with an aggregate of the reputable, after RFFL.

Xu and Lyu, "A reputation mechanism is all you need: collaborative fairness and adversarial
robustness in federated learning" (2021). The original lets reputation fade by a constant factor per
round and shuts out who falls below a threshold. This form counts all rounds alike and shuts nobody
out, so that it can be compared as a score; in a round without a past, all are equally reputable.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedmerit.comparison import (
    cosines,
    cosines_to_mean,
    float_updates,
    gram,
    off_diagonal,
)
from fedmerit.types import Contributions, Needs, Pairs, RoundInputs


@dataclass(frozen=True)
class Reputation:
    """Score = a client's share of all agreement so far, this round included.

    Agreement is the cosine with the sum of the normalised updates weighted by reputation, and is
    handed on as `Contributions.work`: its sum over earlier rounds comes back as `trust`.
    """

    needs: ClassVar[Needs] = Needs(floats=True, trust=True)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; draws nothing."""
        del rng
        directions = cosines(gram(float_updates(inputs, "reputation")))
        past = np.zeros(inputs.clients) if inputs.trust is None else inputs.trust
        reputable = np.maximum(past, 0.0)
        if not reputable.any():
            reputable = np.ones(inputs.clients)
        agreement = cosines_to_mean(directions, reputable)
        total = np.maximum(past + agreement, 0.0)
        scores = total / total.sum() if total.any() else total
        return Contributions.of(
            "reputation", scores, work=agreement, pairs=Pairs(off_diagonal(directions))
        )
