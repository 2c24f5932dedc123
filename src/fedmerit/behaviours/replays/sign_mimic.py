"""Free riders with the magnitudes of the last global update and signs of their own.

Source: ours. It has exactly the marginal sizes of a real update, parameter by parameter, and passes
whatever looks at those only.
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, Report


@dataclass(frozen=True)
class SignMimic(Behaviour):
    """Report random signs times |g|, with g the last global update; zeros in round 1."""

    name = "sign-mimic"
    trains = False

    def report(self, view: ClientView) -> Report:
        """Report the right sizes in random directions."""
        signs = view.rng.choice(np.array([-1, 1], dtype=np.float32), size=view.global_model.size)
        return Report(signs * np.abs(view.last_update), view.num_examples)
