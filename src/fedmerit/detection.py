"""Evidence over rounds: who has not worked, with an error rate that survives looking every round.

How the evidence is gathered, and why its error rate holds, is told in `fedmerit.scorers.wealth`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedmerit.errors import InvalidInputError
from fedmerit.scorers.wealth import NAMED, NAMING_RATE, Wealth, bet, rank
from fedmerit.types import Contributions
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Verdict:
    """What is known of a client after some rounds."""

    client: str
    rounds: int
    e_value: float
    flagged: bool
    reason: str


class Watch:
    """Gathers evidence against clients over rounds.

    Parameters
    ----------
    rate
        False discovery rate over all clients seen: the expected share of clients that did work
        among those that are flagged.
    """

    def __init__(self, rate: float = NAMING_RATE) -> None:
        self.rate = check_number("rate", rate, above=0, below=1)
        self._wealth: dict[str, Wealth] = {}
        self._reason: dict[str, str] = {}

    def observe(self, clients: Sequence[str], result: Contributions) -> None:
        """Take in one round, scored by a method that gives z (``merit`` or ``conditional``)."""
        if len(clients) != len(result.scores):
            raise InvalidInputError(
                f"clients must name every score, {len(result.scores)}, got {len(clients)}"
            )
        self._wealth |= bet(self._wealth, clients, result)
        for client, reason in zip(clients, result.reasons, strict=True):
            if reason and reason != NAMED:  # that says no more than is known here
                self._reason[client] = reason

    def verdicts(self) -> list[Verdict]:
        """Return what is known of every client seen so far, most suspicious first."""
        names, flagged = rank(self._wealth, self.rate)
        return [
            Verdict(
                client=name,
                rounds=self._wealth[name].rounds,
                e_value=float(np.exp(min(self._wealth[name].evidence, 700.0))),
                flagged=index < flagged,
                reason=self._reason.get(name, "independent of every peer")
                if index < flagged
                else "",
            )
            for index, name in enumerate(names)
        ]
