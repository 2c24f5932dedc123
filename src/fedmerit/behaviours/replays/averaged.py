"""Free riders that replay the mean of several global updates.

Source: ours; no single public update explains such a report.
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Averaged(Behaviour):
    """Report the mean of the last `rounds` global updates, or of as many as there are."""

    name = "averaged"
    trains = False
    rounds: float = 3

    def __post_init__(self) -> None:
        check_number("rounds", self.rounds, least=1)

    def report(self, view: ClientView) -> Report:
        """Report where the server went lately; zeros in round 1."""
        known = view.global_updates[: int(self.rounds)]
        if not known:
            return Report(np.zeros_like(view.global_model), view.num_examples)
        return Report(np.mean(known, axis=0, dtype=np.float32), view.num_examples)
