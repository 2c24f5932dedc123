"""Free riders that replay the last global update under noise of a different size per parameter.

Source: the adaptive attack in the free-rider benchmark of TU Wien (on GitHub:
LukasXperiaZ/FL-free-rider-benchmark).
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number

# Relative to `sd`: which of the three a parameter gets is drawn anew in every round.
SCALES = np.array([1.0, 0.1, 0.01], dtype=np.float32)


@dataclass(frozen=True)
class Adaptive(Behaviour):
    """Report g plus noise whose sd is drawn per parameter from {1, 1/10, 1/100} times `sd`.

    g is the last global update; in round 1 the noise is all there is.
    """

    name = "adaptive"
    trains = False
    sd: float = 1e-3

    def __post_init__(self) -> None:
        check_number("sd", self.sd, least=0)

    def report(self, view: ClientView) -> Report:
        """Report the unevenly blurred replay."""
        size = view.global_model.size
        noise = view.rng.choice(SCALES, size=size) * gaussian(view.rng, size, self.sd)
        return Report(view.last_update + noise, view.num_examples)
