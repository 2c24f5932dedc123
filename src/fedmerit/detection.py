"""Evidence over rounds: who has not worked, with an error rate that survives looking every round.

For each client a wealth is kept that starts at 1 and bets, in every round the client takes part
in, that it agrees with the cohort like a free rider (z about 0) and not at least a little like the
others (z of at least delta, a quarter of what is typical in that round). The bet multiplies it by

    exp(-delta z + delta^2 / 2),

whose expectation is at most 1 as long as the client's expected z is at least delta: the wealth is
an e-process, and by Ville's inequality the chance that it *ever* reaches 1/a is at most a. So

- testing again every round costs nothing, and rounds without the client change nothing;
- in rounds in which the cohort itself hardly agrees delta is small, and hardly anything is bet;
- a second wealth bets on reports that public information explains. A client that works sends one in
  at most one round of a hundred; each multiplies this wealth by 10.9, every other report by 0.9,
  which is at most 1 in expectation. The evidence against a client is the mean of both wealths;
- over clients, e-values give a false discovery rate under any dependence (Wang and Ramdas, "False
  discovery rate control with e-values", 2022): sorted from above, the client of rank r is flagged
  if the e-value of rank r or of a later rank s is at least n / (rate s).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedmerit.errors import InvalidInputError
from fedmerit.scorers.cohort import find_cohort
from fedmerit.scorers.conditional import EXPLAINED
from fedmerit.types import Contributions
from fedmerit.validation import check_number

# A client must agree at least this much of what is typical ...
_LEAST_SHARE = 0.25
# ... but never more than this is bet in one round: one odd round must not decide alone.
_LARGEST_BET = 3.0
# Chance that a report is explained by public information although the client worked, and the share
# of its wealth that the second bet puts on that: one odd round must not decide there either.
_HONEST_REPLAYS = 0.01
_STAKE = 0.1


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

    def __init__(self, rate: float = 0.01) -> None:
        self.rate = check_number("rate", rate, above=0, below=1)
        self._log_wealth: dict[str, float] = {}
        self._log_replays: dict[str, float] = {}
        self._rounds: dict[str, int] = {}
        self._reason: dict[str, str] = {}

    def observe(self, clients: Sequence[str], result: Contributions) -> None:
        """Take in one round, scored by a method that gives z (``merit`` or ``conditional``)."""
        if len(clients) != len(result.scores):
            raise InvalidInputError(
                f"clients must name every score, {len(result.scores)}, got {len(clients)}"
            )
        cohort = find_cohort(result.z, result.flagged & ~result.eligible)
        bet = min(_LEAST_SHARE * max(cohort.typical, 0.0), _LARGEST_BET)
        for index, client in enumerate(clients):
            self._rounds[client] = self._rounds.get(client, 0) + 1
            gain = bet * bet / 2 - bet * cohort.agreement[index]
            self._log_wealth[client] = self._log_wealth.get(client, 0.0) + gain
            replayed = result.reasons[index].startswith(EXPLAINED)
            share = 1 - _STAKE + replayed * _STAKE / _HONEST_REPLAYS
            known = not np.isnan(result.explained[index])
            more = float(np.log(share)) if known else 0.0
            self._log_replays[client] = self._log_replays.get(client, 0.0) + more
            if result.reasons[index]:
                self._reason[client] = result.reasons[index]

    def verdicts(self) -> list[Verdict]:
        """Return what is known of every client seen so far, most suspicious first."""
        evidence = {
            name: float(np.logaddexp(wealth, self._log_replays[name]) - np.log(2))
            for name, wealth in self._log_wealth.items()
        }
        names = sorted(evidence, key=lambda name: (-evidence[name], name))
        rank = np.arange(1, len(names) + 1)
        wealth = np.array([evidence[name] for name in names])
        enough = np.flatnonzero(wealth >= np.log(len(names) / (self.rate * rank)))
        flagged = int(enough[-1]) + 1 if len(enough) else 0
        return [
            Verdict(
                client=name,
                rounds=self._rounds[name],
                e_value=float(np.exp(min(evidence[name], 700.0))),
                flagged=index < flagged,
                reason=self._reason.get(name, "independent of every peer")
                if index < flagged
                else "",
            )
            for index, name in enumerate(names)
        ]
