"""Cosine to the mean update, as CGSV scores clients.

Xu, Lyu, Ma, Miao, Foo and Low, "Gradient driven rewards to guarantee fairness in collaborative
machine learning" (NeurIPS 2021): the cosine with the aggregate stands in for a Shapley value. Here
the aggregate is the plain mean of the round, and nothing is carried over from earlier rounds.
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
class CosineToMean:
    """Score = cosine of a client's update with the mean of all; 0 where either is zero."""

    needs: ClassVar[Needs] = Needs(floats=True)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; draws nothing."""
        del rng
        products = gram(float_updates(inputs, "cosine"))
        scores = cosines_to_mean(products, np.ones(inputs.clients))
        return Contributions.of("cosine", scores, pairs=Pairs(off_diagonal(cosines(products))))
