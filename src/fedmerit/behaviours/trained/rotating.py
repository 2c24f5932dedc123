"""Clients that work for some rounds and then send what they did then, again and again.

Source: ours; nobody else has ever seen these updates, so no public vector explains them.
"""

from dataclasses import dataclass

from fedmerit.behaviours.base import Behaviour, ClientView, Report
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Rotating(Behaviour):
    """Report honestly `rounds` times, then these reports in turn."""

    name = "rotating"
    rounds: float = 4

    def __post_init__(self) -> None:
        check_number("rounds", self.rounds, least=1)

    @property
    def remembers(self) -> int:
        """The honest reports."""
        return int(self.rounds)

    def report(self, view: ClientView) -> Report:
        """Report the truth, or what was the truth once."""
        past = view.own_reports
        if len(past) < self.remembers:
            return Report(view.trained, view.num_examples)
        return Report(past[view.round % self.remembers], view.num_examples)
