"""Free riders that share a seed, so that they agree with each other.

Source: the classic collusion against peer prediction, where reports are paid for agreement; as many
accounts of one user, the Sybils of Fung, Yoon and Beschastnikh, "The limitations of federated
learning in Sybil settings" (RAID 2020).
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Colluders(Behaviour):
    """Report one shared random vector, drawn anew in every round.

    Parameters
    ----------
    sd : float
        Standard deviation of the shared vector.
    replay : float
        How much of the last global update is added to it (zeros in round 1).
    own : float
        Standard deviation of what each colluder adds to look different.
    """

    name = "colluders"
    trains = False
    sd: float = 0.01
    replay: float = 0.0
    own: float = 0.0

    def __post_init__(self) -> None:
        check_number("sd", self.sd, least=0)
        check_number("replay", self.replay)
        check_number("own", self.own, least=0)

    def report(self, view: ClientView) -> Report:
        """Report what all the others report."""
        size = view.global_model.size
        shared = gaussian(view.group_rng, size, self.sd)
        around = np.float32(self.replay) * view.last_update
        return Report(around + shared + gaussian(view.rng, size, self.own), view.num_examples)
