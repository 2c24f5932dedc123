"""Clients without data that train honestly on invented samples.

Source: ours; the hardest kind in principle, since the updates are real gradients of the real model.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours.base import LocalData
from fedmerit.behaviours.honest import Honest
from fedmerit.validation import check_number


@dataclass(frozen=True)
class FakeData(Honest):
    """Train on invented inputs with random labels and report what came out, in every round.

    Inputs are N(0, sd^2); where they are indices (click logs), any value is as likely.

    Only the shape of an input and the number of samples are taken from the client's data.

    Parameters
    ----------
    sd : float
        Spread of the inputs; the federation's are normalised, which everybody knows.
    classes : int
        How many classes the federation's model tells apart, which everybody knows.
    """

    name = "fake-data"
    sd: float = 1.0
    classes: float = 10

    def __post_init__(self) -> None:
        check_number("sd", self.sd, least=0)
        check_number("classes", self.classes, least=2)

    def local_data(self, data: LocalData, rng: np.random.Generator) -> LocalData:
        """Invent as many samples as the client would have."""
        inputs: NDArray[Any]
        if data.sizes is None:
            inputs = rng.standard_normal(data.x.shape, dtype=np.float32) * np.float32(self.sd)
        else:
            inputs = rng.integers(0, data.sizes, size=data.x.shape, dtype=np.int32)
            inputs[:, 0] = np.maximum(inputs[:, 0], 1)  # something is always shown
        labels = rng.integers(0, int(self.classes), size=data.y.shape)
        return replace(data, x=inputs, y=labels)
