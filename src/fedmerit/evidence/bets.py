"""Bets on clients that do not work: evidence over rounds that survives looking every round.

For each client a wealth is kept that starts at 1 and bets, in every round the client takes part
in, that it agrees with the cohort like a free rider (mean z about 0) and not at least a little like
the others (at least a quarter of what is typical in that round). In units of the standard deviation
of that mean, with x what the client shows and d the quarter, the bet multiplies it by

    exp(-d x + d^2 / 2),

whose expectation is at most 1 as long as the client's expected x is at least d: the wealth is
an e-process, and by Ville's inequality the chance that it *ever* reaches 1/a is at most a. So

- testing again every round costs nothing, and rounds without the client change nothing;
- in rounds in which the cohort itself hardly agrees d is small, and hardly anything is bet;
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

from fedmerit.evidence.limits import LIMITS
from fedmerit.flags import Flag, Kind
from fedmerit.types import Contributions, Evidence

# False discovery rate at which clients are named where nothing else is asked for.
NAMING_RATE = 0.01


@dataclass(frozen=True)
class Wealth:
    """What two bets against one client have come to, as logarithms, and over how many rounds.

    `flag` is the latest that accused the client in a round.
    """

    independent: float = 0.0
    replayed: float = 0.0
    rounds: int = 0
    flag: Flag | None = None

    @property
    def evidence(self) -> float:
        """The logarithm of the e-value."""
        return float(np.logaddexp(self.independent, self.replayed) - np.log(2))


def bet(
    known: Mapping[str, Wealth], clients: Sequence[str], result: Contributions
) -> dict[str, Wealth]:
    """Return the wealth against the `clients` of a round after it, given that before it."""
    gains = _gains_by_independence(result.evidence, len(clients))
    after = {}
    for row, client in enumerate(clients):
        before, flag = known.get(client, Wealth()), result.flags[row]
        gain = 0.0
        if result.evidence is not None:
            replayed = flag is not None and flag.kind is Kind.EXPLAINED
            gain = float(np.log(1 - LIMITS.stake + replayed * LIMITS.stake / LIMITS.honest_replays))
        # That a client is named says no more than is known here.
        accused = flag is not None and flag.accuses and flag.kind is not Kind.NAMED
        after[client] = Wealth(
            before.independent + float(gains[row]),
            before.replayed + gain,
            before.rounds + 1,
            flag.with_names(clients) if flag is not None and accused else before.flag,
        )
    return after


def _gains_by_independence(evidence: Evidence | None, clients: int) -> NDArray[np.float64]:
    """Return what the first bet gains against each client; 0 where there is no cohort."""
    if evidence is None:
        return np.zeros(clients)
    least = LIMITS.least_share * np.maximum(evidence.typical, 0.0) / evidence.deviation
    stake = np.minimum(least, LIMITS.largest_bet)
    reached = np.maximum(evidence.agreement / evidence.deviation, LIMITS.least_agreement)
    gains: NDArray[np.float64] = stake * stake / 2 - stake * reached
    return gains


def rank(known: Mapping[str, Wealth], rate: float) -> tuple[list[str], int]:
    """Return the clients, most suspicious first, and how many of them `rate` names."""
    evidence = {name: wealth.evidence for name, wealth in known.items()}
    names = sorted(evidence, key=lambda name: (-evidence[name], name))
    order = np.arange(1, len(names) + 1)
    reached = np.array([evidence[name] for name in names])
    enough = np.flatnonzero(reached >= np.log(len(names) / (rate * order)))
    return names, int(enough[-1]) + 1 if len(enough) else 0
