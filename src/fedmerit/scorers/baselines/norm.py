"""The length of an update: the cheapest measure of how much somebody did, and the easiest to fake.

Used as a contribution measure and for choosing clients, for instance by Chen, Horvath and
Richtarik, "Optimal client sampling for federated learning" (TMLR 2022).
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.scorers.products import float_updates, gram
from fedmerit.types import Contributions, RoundInputs


@dataclass(frozen=True)
class UpdateNorm:
    """Score = Euclidean norm of a client's update. Nobody is compared with anybody."""

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; draws nothing."""
        del rng
        products = gram(float_updates(inputs, "norm"))
        return Contributions.of("norm", np.sqrt(np.diagonal(products)))
