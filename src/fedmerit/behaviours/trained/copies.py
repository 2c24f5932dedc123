"""Several accounts that upload one user's work.

Source: the Sybils of Fung, Yoon and Beschastnikh, "The limitations of federated learning in Sybil
settings" (RAID 2020), here with honest work that is to be paid more than once.
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Copies(Behaviour):
    """Report the honest update of the group's first member of the round, in every round.

    That member reports it as it is; the others add noise, to look different.

    Parameters
    ----------
    noise : float
        Standard deviation of that noise, relative to the root mean square of the update.
    """

    name = "copies"
    shares = True
    noise: float = 1e-3

    def __post_init__(self) -> None:
        check_number("noise", self.noise, least=0)

    def report(self, view: ClientView) -> Report:
        """Report what one of the group did."""
        work = view.group_update
        if work is None:
            raise RuntimeError(f"client {view.client} has no group to copy from")
        if np.array_equal(work, view.trained):
            return Report(work, view.num_examples)
        size = float(np.sqrt(np.square(work, dtype=np.float64).mean()))
        return Report(work + gaussian(view.rng, work.size, self.noise * size), view.num_examples)
