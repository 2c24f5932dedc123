"""Bets on clients that do not work: evidence over rounds that survives looking every round.

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
  discovery rate control with e-values", 2022): sorted from above, the client of rank r is named
  if the e-value of rank r or of a later rank s is at least n / (rate s).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.scorers.cohort import compared_groups, find_cohort
from fedmerit.scorers.conditional import EXPLAINED
from fedmerit.types import Contributions

# Why a client is flagged that nothing but earlier rounds speak against.
NAMED = "has not worked in earlier rounds"
# False discovery rate at which clients are named where nothing else is asked for.
NAMING_RATE = 0.01
# A client must agree at least this much of what is typical ...
_LEAST_SHARE = 0.25
# ... but never more than this is bet in one round, and who disagrees counts as one that agrees so
# little: one odd round must not decide alone.
_LARGEST_BET = 3.0
_LEAST_AGREEMENT = -0.5
# Chance that a report is explained by public information although the client worked, and the share
# of its wealth that the second bet puts on that: one odd round must not decide there either.
_HONEST_REPLAYS = 0.01
_STAKE = 0.1


@dataclass(frozen=True)
class Wealth:
    """What two bets against one client have come to, as logarithms, and over how many rounds."""

    independent: float = 0.0
    replayed: float = 0.0
    rounds: int = 0

    @property
    def evidence(self) -> float:
        """The logarithm of the e-value."""
        return float(np.logaddexp(self.independent, self.replayed) - np.log(2))


def bet(
    known: Mapping[str, Wealth], clients: Sequence[str], result: Contributions
) -> dict[str, Wealth]:
    """Return the wealth against the `clients` of a round after it, given that before it."""
    gains = _gains_by_independence(result)
    after = {}
    for row, client in enumerate(clients):
        before = known.get(client, Wealth())
        gain = 0.0
        if not np.isnan(result.explained[row]):
            replayed = result.reasons[row].startswith(EXPLAINED)
            gain = float(np.log(1 - _STAKE + replayed * _STAKE / _HONEST_REPLAYS))
        after[client] = Wealth(
            before.independent + float(gains[row]), before.replayed + gain, before.rounds + 1
        )
    return after


def _gains_by_independence(result: Contributions) -> NDArray[np.float64]:
    """Return what the first bet gains against each client; 0 where it was not compared."""
    gains = np.zeros(len(result.scores))
    barred = result.flagged & ~result.eligible
    # Many clients are scored in panels that are not compared with each other.
    for panel in compared_groups(result.z):
        z = result.z[np.ix_(panel, panel)]
        cohort = find_cohort(z, barred[panel])
        delta = min(_LEAST_SHARE * max(cohort.typical, 0.0), _LARGEST_BET)
        gain = delta * delta / 2 - delta * np.maximum(cohort.agreement, _LEAST_AGREEMENT)
        compared = (~np.isnan(z[:, cohort.members])).any(axis=1)
        gains[panel] = np.where(compared, gain, 0.0)
    return gains


def rank(known: Mapping[str, Wealth], rate: float) -> tuple[list[str], int]:
    """Return the clients, most suspicious first, and how many of them `rate` names."""
    evidence = {name: wealth.evidence for name, wealth in known.items()}
    names = sorted(evidence, key=lambda name: (-evidence[name], name))
    order = np.arange(1, len(names) + 1)
    reached = np.array([evidence[name] for name in names])
    enough = np.flatnonzero(reached >= np.log(len(names) / (rate * order)))
    return names, int(enough[-1]) + 1 if len(enough) else 0
