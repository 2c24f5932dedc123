"""Free riders that replay the last global update.

Source: the delta weights attack of Lin, Du and Liu, "Free-riders in federated learning: attacks and
defenses" (arXiv:1911.12560, 2019).
"""

from dataclasses import dataclass

from fedmerit.behaviours.base import Behaviour, ClientView, Report


@dataclass(frozen=True)
class Stale(Behaviour):
    """Report g, the last global update; zeros in round 1."""

    name = "stale"
    trains = False

    def report(self, view: ClientView) -> Report:
        """Report what the server did last."""
        return Report(view.last_update, view.num_examples)
