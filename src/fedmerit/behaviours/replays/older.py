"""Free riders that replay a global update of earlier rounds, which the server may have forgotten.

Source: ours; the delta weights attack (see `stale`) with a longer memory.
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Older(Behaviour):
    """Report the global update of `rounds` rounds ago (1: the last); zeros before there is one.

    Where public updates do not reach back so far, the oldest of them is reported.
    """

    name = "older"
    trains = False
    rounds: float = 3

    def __post_init__(self) -> None:
        check_number("rounds", self.rounds, least=1)

    def report(self, view: ClientView) -> Report:
        """Report what the server did some time ago."""
        known = view.global_updates
        if not known:
            return Report(np.zeros_like(view.global_model), view.num_examples)
        return Report(known[min(int(self.rounds), len(known)) - 1], view.num_examples)
