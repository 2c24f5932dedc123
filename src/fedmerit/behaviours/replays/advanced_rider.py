"""Free riders that scale the replay and its noise as honest updates would evolve.

Source: Zhu, Shu, Zou and Jia, "Advanced free-rider attacks in federated learning" (2021), in the
form of the free-rider benchmark of TU Wien (LukasXperiaZ/FL-free-rider-benchmark).
"""

from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number


@dataclass(frozen=True)
class AdvancedRider(Behaviour):
    """Report U = g |g_t| / |g_(t-1)| plus noise on a random `share` of the parameters.

    With l_t the norm of the t-th global update, n clients and d parameters the noise has the sd
    phi / (share d), phi = |U| sqrt(n^2 / (n + (n^2 - n) E) - 1), where
    E = C^2 / (C^2 + exp(2 lambda t)) is how similar two honest updates are expected to be and
    lambda = ln(l_t / l_1) / (t - 1) how fast updates shrink. Zeros in round 1; with one global
    update to look at, its ratio and its decay are taken as 1 and 0.

    Parameters
    ----------
    similarity : float
        C.
    share : float
        Share of the parameters that get noise.
    """

    name = "advanced-rider"
    trains = False
    similarity: float = 0.5
    share: float = 0.7

    def __post_init__(self) -> None:
        check_number("similarity", self.similarity, above=0)
        check_number("share", self.share, above=0, most=1)

    def report(self, view: ClientView) -> Report:
        """Report the scaled replay with its noise."""
        norms, size = view.update_norms, view.global_model.size
        ratio, decay = 1.0, 0.0
        # A federation that stood still leaves nothing to divide by.
        if len(norms) > 1 and min(norms[0], norms[-2], norms[-1]) > 0:
            ratio = norms[-1] / norms[-2]
            decay = log(norms[-1] / norms[0]) / (len(norms) - 1)
        replay = view.last_update * np.float32(ratio)
        similar = self.similarity**2 / (self.similarity**2 + exp(2 * decay * len(norms)))
        n = view.participants
        spread = sqrt(max(n**2 / (n + (n**2 - n) * similar) - 1, 0.0))
        phi = float(np.linalg.norm(replay.astype(np.float64))) * spread
        noisy = view.rng.random(size) < self.share
        noise = gaussian(view.rng, size, phi / (self.share * size)) * noisy
        return Report(replay + noise, view.num_examples)
