"""Free riders that come back under a new name before anything is proven about the old one.

Source: the whitewashers of Feldman, Papadimitriou, Chuang and Stoica, "Free-riding and whitewashing
in peer-to-peer systems" (PINS 2004).
"""

from dataclasses import dataclass

from fedmerit.behaviours.replays.stale import Stale
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Renaming(Stale):
    """Report g, the last global update, under a new name every `rounds` rounds."""

    name = "renaming"
    rounds: float = 3

    def __post_init__(self) -> None:
        check_number("rounds", self.rounds, least=1)

    def account(self, client: int, number: int) -> str:
        """Return a name that nobody has had before."""
        return f"{client}-{(number - 1) // int(self.rounds)}"
