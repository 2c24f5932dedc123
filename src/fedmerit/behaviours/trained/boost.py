"""Attackers that shout: an honest update, many times too long.

Source: the scaling of model replacement in Bagdasaryan, Veit, Hua, Estrin and Shmatikov, "How to
backdoor federated learning" (AISTATS 2020).
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Boost(Behaviour):
    """Train honestly and report the update times `factor`, in every round."""

    name = "boost"
    factor: float = 100.0

    def __post_init__(self) -> None:
        check_number("factor", self.factor, above=0)

    def report(self, view: ClientView) -> Report:
        """Report the truth, exaggerated."""
        return Report(view.trained * np.float32(self.factor), view.num_examples)
