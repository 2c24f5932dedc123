"""Free riders that send uniformly random weights.

Source: the random weights attack of Lin, Du and Liu, "Free-riders in federated learning: attacks
and defenses" (arXiv:1911.12560, 2019): U(-R, R), with R chosen to fit the weights
that are sent out.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report
from fedmerit.validation import check_number


@dataclass(frozen=True)
class UniformModel(Behaviour):
    """Send a model drawn from U(-R, R), in every round; as an update, that minus the global model.

    Parameters
    ----------
    scale : float
        Spread relative to the global model's: with 1 the random weights have its root mean square.
    """

    name = "uniform-model"
    trains = False
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_number("scale", self.scale, least=0)

    def report(self, view: ClientView) -> Report:
        """Report what turns the global model into random weights."""
        model = view.global_model
        # U(-R, R) has the root mean square R / sqrt(3).
        bound = self.scale * sqrt(3 * float(np.square(model, dtype=np.float64).mean()))
        weights = view.rng.uniform(-bound, bound, size=model.size).astype(np.float32)
        return Report(weights - model, view.num_examples)
