"""Clients that replay the last global update with a little of their own work in it.

Source: ours; `lazy` with the work scaled down instead of the samples.
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Mixed(Behaviour):
    """Report `own` times the work plus 1 - `own` times g, g as long as the work.

    In round 1, when there is no g, the work alone is reported.
    """

    name = "mixed"
    own: float = 0.1

    def __post_init__(self) -> None:
        check_number("own", self.own, least=0, most=1)

    def report(self, view: ClientView) -> Report:
        """Report the mixture."""
        work, last = view.trained, view.last_update
        length, replayed = (float(np.linalg.norm(v.astype(np.float64))) for v in (work, last))
        if not replayed:
            return Report(work, view.num_examples)
        mixture = self.own * work + (1 - self.own) * length / replayed * last
        return Report(mixture.astype(np.float32), view.num_examples)
