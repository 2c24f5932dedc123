"""Free riders that guess the next global update from the last two.

Source: ours; linear extrapolation, the simplest forecast.
"""

from dataclasses import dataclass

from fedmerit.behaviours.base import Behaviour, ClientView, Report


@dataclass(frozen=True)
class Extrapolated(Behaviour):
    """Report g + (g - the update before it); g alone while there is no other, zeros in round 1."""

    name = "extrapolated"
    trains = False

    def report(self, view: ClientView) -> Report:
        """Report where the server would go next if nothing bent its way."""
        before = view.global_updates[1] if len(view.global_updates) > 1 else view.last_update
        return Report(view.last_update + (view.last_update - before), view.num_examples)
