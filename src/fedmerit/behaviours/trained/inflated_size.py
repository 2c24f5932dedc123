"""Clients that claim more data than they have, to be weighed more by FedAvg."""

from dataclasses import dataclass

from fedmerit.behaviours.base import Behaviour, ClientView, Report
from fedmerit.validation import check_number


@dataclass(frozen=True)
class InflatedSize(Behaviour):
    """Train honestly, but claim `factor` times as many samples."""

    name = "inflated-size"
    factor: float = 10.0

    def __post_init__(self) -> None:
        check_number("factor", self.factor, least=1)

    def report(self, view: ClientView) -> Report:
        """Report the truth about the update only."""
        return Report(view.trained, round(view.num_examples * self.factor))
