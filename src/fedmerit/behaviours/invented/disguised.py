"""Free riders whose noise shrinks over the rounds as honest updates do.

Source: the disguised free rider of Fraboni, Vidal and Lorenzi, "Free-rider attacks on model
aggregation in federated learning" (AISTATS 2021).
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Disguised(Behaviour):
    """Report N(0, (c s t^-y)^2) in round t, s the mean of |g|; zeros in round 1.

    Parameters
    ----------
    factor : float
        c; the source uses 1 and 3.
    decay : float
        y; the source uses 0.5, 1 and 2.
    """

    name = "disguised"
    trains = False
    factor: float = 1.0
    decay: float = 1.0

    def __post_init__(self) -> None:
        check_number("factor", self.factor, least=0)
        check_number("decay", self.decay, least=0)

    def report(self, view: ClientView) -> Report:
        """Report noise of a believable size."""
        size = float(np.abs(view.last_update).mean(dtype=np.float64))
        sd = self.factor * size * view.round**-self.decay
        return Report(gaussian(view.rng, view.global_model.size, sd), view.num_examples)
