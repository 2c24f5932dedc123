"""Clients that protect their privacy with noise (paper: informed users, s2)."""

from dataclasses import dataclass

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Noise(Behaviour):
    """Train honestly and add N(0, sd^2) to every parameter of the update."""

    name = "noise"
    sd: float = 0.01

    def __post_init__(self) -> None:
        check_number("sd", self.sd, least=0)

    def report(self, view: ClientView) -> Report:
        """Report the blurred truth."""
        noise = gaussian(view.rng, view.trained.size, self.sd)
        return Report(view.trained + noise, view.num_examples)
