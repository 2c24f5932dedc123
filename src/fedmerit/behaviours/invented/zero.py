"""Free riders that send back the model they were given.

Source: the plain free rider of Fraboni, Vidal and Lorenzi, "Free-rider attacks on model aggregation
in federated learning" (AISTATS 2021).
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report


@dataclass(frozen=True)
class Zero(Behaviour):
    """Report an update of zeros, in every round."""

    name = "zero"
    trains = False

    def report(self, view: ClientView) -> Report:
        """Report that nothing changed."""
        return Report(np.zeros_like(view.global_model), view.num_examples)
