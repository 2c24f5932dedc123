"""Free riders that replay the last global update under a little noise.

Source: the advanced delta weights attack of Lin, Du and Liu, "Free-riders in federated learning:
attacks and defenses" (arXiv:1911.12560, 2019).
"""

from dataclasses import dataclass

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number


@dataclass(frozen=True)
class AdvancedDelta(Behaviour):
    """Report g + N(0, sd^2), with g the last global update; the noise alone in round 1."""

    name = "advanced-delta"
    trains = False
    sd: float = 1e-3

    def __post_init__(self) -> None:
        check_number("sd", self.sd, least=0)

    def report(self, view: ClientView) -> Report:
        """Report the blurred replay."""
        noise = gaussian(view.rng, view.global_model.size, self.sd)
        return Report(view.last_update + noise, view.num_examples)
