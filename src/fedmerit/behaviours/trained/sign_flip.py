"""Attackers that push the model back.

Source: the sign-flipping attack of Li, Xu, Chen, Giannakis and Ling, "RSA: Byzantine-robust
stochastic aggregation methods" (AAAI 2019).
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report
from fedmerit.validation import check_number


@dataclass(frozen=True)
class SignFlip(Behaviour):
    """Train honestly and report the update times ``-factor``, in every round."""

    name = "sign-flip"
    factor: float = 1.0

    def __post_init__(self) -> None:
        check_number("factor", self.factor, above=0)

    def report(self, view: ClientView) -> Report:
        """Report the opposite of the truth."""
        return Report(view.trained * np.float32(-self.factor), view.num_examples)
