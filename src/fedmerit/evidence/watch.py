"""Evidence over rounds: who has not worked, with an error rate that survives looking every round.

How the evidence is gathered, and why its error rate holds, is told in `fedmerit.evidence.bets`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedmerit.errors import InvalidInputError
from fedmerit.evidence.bets import NAMING_RATE, Wealth, bet, rank
from fedmerit.flags import Flag, Kind
from fedmerit.types import Contributions
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Verdict:
    """What is known of a client after some rounds."""

    client: str
    rounds: int
    e_value: float
    flag: Flag | None

    @property
    def flagged(self) -> bool:
        """Whether the client is named as one that has not worked."""
        return self.flag is not None

    @property
    def reason(self) -> str:
        """Why, in words; empty where the client is not named."""
        return "" if self.flag is None else self.flag.words


def verdicts_of(wealth: Mapping[str, Wealth], rate: float) -> list[Verdict]:
    """Return what is known of every client, most suspicious first; `rate` decides who is named."""
    names, flagged = rank(wealth, rate)
    return [
        Verdict(
            client=name,
            rounds=wealth[name].rounds,
            e_value=float(np.exp(min(wealth[name].evidence, 700.0))),
            flag=(wealth[name].flag or Flag(Kind.INDEPENDENT)) if index < flagged else None,
        )
        for index, name in enumerate(names)
    ]


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

    def observe(self, clients: Sequence[str], result: Contributions) -> None:
        """Take in one round, scored by a method that gives z (``merit`` or ``conditional``)."""
        if len(clients) != len(result.scores):
            raise InvalidInputError(
                f"clients must name every score, {len(result.scores)}, got {len(clients)}"
            )
        self._wealth |= bet(self._wealth, clients, result)

    def verdicts(self) -> list[Verdict]:
        """Return what is known of every client seen so far, most suspicious first."""
        return verdicts_of(self._wealth, self.rate)
