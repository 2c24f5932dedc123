"""The length of an update: the cheapest measure of how much somebody did, and the easiest to fake.

Used as a contribution measure and for choosing clients, for instance by Chen, Horvath and
Richtarik, "Optimal client sampling for federated learning" (TMLR 2022).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedmerit.comparison import float_updates, gram
from fedmerit.types import Contributions, Needs, RoundInputs


@dataclass(frozen=True)
class UpdateNorm:
    """Score = Euclidean norm of a client's update. Nobody is compared with anybody."""

    needs: ClassVar[Needs] = Needs(floats=True)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; draws nothing."""
        del rng
        products = gram(float_updates(inputs, "norm"))
        return Contributions.of("norm", np.sqrt(np.diagonal(products)))
