"""Honest clients: train on their own data and report what came out."""

from dataclasses import dataclass

from fedmerit.behaviours.base import Behaviour, ClientView, Report


@dataclass(frozen=True)
class Honest(Behaviour):
    """Report the trained update and the true size of the data."""

    name = "honest"

    def report(self, view: ClientView) -> Report:
        """Report the truth."""
        return Report(view.trained, view.num_examples)
