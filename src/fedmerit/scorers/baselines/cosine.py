"""Cosine to the mean update, as CGSV scores clients.

Xu, Lyu, Ma, Miao, Foo and Low, "Gradient driven rewards to guarantee fairness in collaborative
machine learning" (NeurIPS 2021): the cosine with the aggregate stands in for a Shapley value. Here
the aggregate is the plain mean of the round, and nothing is carried over from earlier rounds.
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.scorers.products import (
    cosines,
    cosines_to_mean,
    float_updates,
    gram,
    off_diagonal,
)
from fedmerit.types import Contributions, RoundInputs


@dataclass(frozen=True)
class CosineToMean:
    """Score = cosine of a client's update with the mean of all; 0 where either is zero."""

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; draws nothing."""
        del rng
        products = gram(float_updates(inputs, "cosine"))
        scores = cosines_to_mean(products, np.ones(inputs.clients))
        return Contributions.of("cosine", scores, pairwise=off_diagonal(cosines(products)))
