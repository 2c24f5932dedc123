"""Bets on clients that do not work: evidence over rounds that survives looking every round.

Three wealths are kept for each client. All start at 1. In the n-th round that the client takes part
in, each keeps a reserve of ``0.1 / n`` and puts a share s of the rest on an event that a client
that works brings about with a chance of at most one in a hundred: the rest is multiplied by
``1 - s + 100 s`` if it happens and by ``1 - s`` if not. Its expectation never grows as long as the
client works: it is an e-process, and by Ville's inequality the chance that it *ever* reaches 1/a is
at most a. The reserve makes it the mean of bets that begin in different rounds, nine tenths of them
in the first, ``0.1 / (n (n - 1))`` in the n-th: work of long ago is no credit for a client that
stops working (Shin, Ramdas and Rinaldo, "E-detectors", 2022, mix over the time of a change). The
events are

- the client agrees with the cohort less than one that shows a third of the typical agreement
  would in 99 of 100 rounds, and not significantly by itself. The share is what pays best against a
  client that is independent of the cohort (Kelly's): nothing in rounds in which the cohort itself
  hardly agrees, at most nine tenths, so that one odd round decides nothing;
- public information or the client's own past explains the report (`fedmerit.evidence.cohort`), and
  what is left of it shows no work, neither here nor over the last rounds; the share is a tenth; or
- the report points against the cohort, and its change since the client's last one against theirs
  (`fedmerit.evidence.cohort`). The share is Kelly's as for the first. A round in which the client
  points or changes along with the cohort takes back what such an event would have gained: data of
  one's own pull back and forth, who is turned round is so in every round.

The first wealth counts as evidence only as long as the client's agreement of its last rounds, taken
together, is not what one of a hundred independent clients has at most. Who agrees much less than a
third of what is usual, as after one epoch where others make ten, shows its work slowly, but it
does; who is independent of the others never does. No round counts for more than is significant by
itself.

So testing again every round costs nothing, and rounds without the client change nothing. Who works
again loses the evidence against it: nine tenths of the first wealth in every round. The evidence
against a client is the mean of the wealths. Over clients, e-values give a false discovery rate
under any dependence (Wang and Ramdas, "False discovery rate control with e-values", 2022): sorted
from above, the client of rank r is named if the e-value of rank r or of a later rank s is at least
n / (rate s).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import expm1, isnan, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.decisions import upper_quantile, upper_tail
from fedmerit.evidence.limits import LIMITS
from fedmerit.flags import Flag, Kind
from fedmerit.types import Contributions, Evidence

# False discovery rate at which clients are named where nothing else is asked for.
NAMING_RATE = 0.01
# What a round says of a client because of earlier ones.
_STANDS = (Kind.NAMED, Kind.STANDING)
# What a round says of a report that shows no work of its client's; a near-copy is somebody's work.
_WITHOUT_WORK = (Kind.EXPLAINED, Kind.REPEATED, Kind.INDEPENDENT, Kind.CLIQUE)


@dataclass(frozen=True)
class Wealth:
    """What three bets against one client have come to, as logarithms, and over how many rounds.

    `flag` is the latest that spoke against the client in a round. `accused` counts the rounds in
    which it was taken not to have done its own work, `worked` those that showed its work.
    """

    independent: float = 0.0
    replayed: float = 0.0
    rounds: int = 0
    flag: Flag | None = None
    reversed: float = 0.0
    accused: int = 0
    worked: int = 0
    agreed: float = 0.0
    agreed_variance: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether a client that is independent hardly has such agreement over the last rounds."""
        limit = upper_quantile(LIMITS.honest_event)
        return self.agreed > limit * sqrt(self.agreed_variance)

    @property
    def standing(self) -> bool:
        """Whether an accusation stands: no more rounds showed work than accused the client."""
        return self.accused > 0 and self.accused >= self.worked

    @property
    def evidence(self) -> float:
        """The logarithm of the e-value."""
        independent = min(self.independent, 0.0) if self.agrees else self.independent
        wealths = (independent, self.replayed, self.reversed)
        return float(np.log(np.mean(np.exp(np.subtract(wealths, max(wealths))))) + max(wealths))


def bet(
    known: Mapping[str, Wealth], clients: Sequence[str], result: Contributions
) -> dict[str, Wealth]:
    """Return the wealth against the `clients` of a round after it, given that before it."""
    gains = _gains_by_independence(result.evidence, len(clients))
    shown = _shown(result.evidence, len(clients))
    after = {}
    for row, client in enumerate(clients):
        before, flag = known.get(client, Wealth()), result.flags[row]
        replayed = reversed_ = 0.0
        worked = False
        # What stands from earlier rounds says no more than is known here.
        reason = flag if flag is not None and flag.accuses and flag.kind not in _STANDS else None
        if result.evidence is not None:
            way, power = int(result.evidence.way[row]), result.evidence.power[row : row + 1]
            worked = bool(result.evidence.members[row])
            replayed = _event(bool(result.evidence.replayed[row]))
            stake = _stake(power)
            reversed_ = float(_gain(stake, np.array([way < 0]))[0])
            if way > 0 and before.reversed > 0:
                # Who points along with the others takes back what a round against them told.
                reversed_ = -float(_gain(stake, np.array([True]))[0])
            reason = reason or (Flag(Kind.REVERSED) if way < 0 else None)
        after[client] = Wealth(
            _wealth(before.independent, float(gains[row]), before.rounds),
            _wealth(before.replayed, replayed, before.rounds),
            before.rounds + 1,
            before.flag if reason is None else reason.with_names(clients),
            _wealth(before.reversed, reversed_, before.rounds),
            before.accused + (flag is not None and flag.kind in _WITHOUT_WORK),
            before.worked + worked,
            *_remembered(before, float(shown[row])),
        )
    return after


def _shown(evidence: Evidence | None, clients: int) -> NDArray[np.float64]:
    """Return what each client's agreement counts for, in standard deviations; NaN without any."""
    if evidence is None or evidence.members.sum() < LIMITS.fewest_members:
        return np.full(clients, np.nan)
    return np.minimum(evidence.agreement / evidence.deviation, LIMITS.significant)


def _remembered(before: Wealth, shown: float) -> tuple[float, float]:
    """Return the sum of agreement with a round's, and its variance; older rounds count less.

    And however many they are, for no more than twice what is significant.
    """
    if isnan(shown):
        return before.agreed, before.agreed_variance
    memory = LIMITS.memory
    variance = memory**2 * before.agreed_variance + 1.0
    most = 2 * upper_quantile(LIMITS.honest_event) * sqrt(variance)
    return min(memory * before.agreed + shown, most), variance


def _gain(stake: NDArray[np.float64], happened: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the logarithm of what a wealth is multiplied by."""
    gain: NDArray[np.float64] = np.log(1 - stake + stake * happened / LIMITS.honest_event)
    return gain


def _wealth(before: float, gain: float, rounds: int) -> float:
    """Return the logarithm of a wealth after one more than so many rounds, by what its bet gains.

    A server's file of an older version may hold less than is kept back.
    """
    kept = log(LIMITS.reserve / (rounds + 1))
    before = max(before, kept)
    return before + log1p(-expm1(kept - before) * expm1(gain))


def _event(happened: bool) -> float:
    """Return what a bet of a tenth gains."""
    return float(_gain(np.array(LIMITS.stake), np.array(happened)))


def _gains_by_independence(evidence: Evidence | None, clients: int) -> NDArray[np.float64]:
    """Return what the first bet gains against each client; 0 where no cohort is to be seen.

    Two who agree may be two who share a secret: they are no yardstick for the others.
    """
    if evidence is None or evidence.members.sum() < LIMITS.fewest_members:
        return np.zeros(clients)
    least = evidence.least / evidence.deviation
    below = np.minimum(least - upper_quantile(LIMITS.honest_event), LIMITS.significant)
    power = 1 - upper_tail(below)  # chance of the event for an independent client
    return _gain(_stake(power), evidence.agreement / evidence.deviation < below)


def _stake(power: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what pays best on an event that has the chance `power` for who does not work."""
    share = (power - LIMITS.honest_event) / (1 - LIMITS.honest_event)
    return np.clip(share, 0.0, LIMITS.largest_stake)


@dataclass(frozen=True)
class Told:
    """What earlier rounds tell of clients, (k,) each.

    In how many each was judged, whether an accusation stands, whether all of them name it, and
    whether its agreement of the last ones, taken together, is significant.
    """

    rounds: NDArray[np.int64]
    standing: NDArray[np.bool_]
    named: NDArray[np.bool_]
    agrees: NDArray[np.bool_]


def told_of(known: Mapping[str, Wealth], clients: Sequence[str], rate: float) -> Told:
    """Return what earlier rounds tell of the `clients`; a `rate` of 0 names nobody."""
    wealth = [known.get(client, Wealth()) for client in clients]
    suspects = set(named(known, rate))
    return Told(
        np.array([one.rounds for one in wealth], dtype=np.int64),
        np.array([one.standing for one in wealth], dtype=np.bool_),
        np.array([client in suspects for client in clients], dtype=np.bool_),
        np.array([one.agrees for one in wealth], dtype=np.bool_),
    )


def named(known: Mapping[str, Wealth], rate: float) -> list[str]:
    """Return whom `rate` names, most suspicious first; 0 names nobody."""
    if rate == 0:
        return []
    names, count = rank(known, rate)
    return names[:count]


def rank(known: Mapping[str, Wealth], rate: float) -> tuple[list[str], int]:
    """Return the clients, most suspicious first, and how many of them `rate` names."""
    evidence = {name: wealth.evidence for name, wealth in known.items()}
    names = sorted(evidence, key=lambda name: (-evidence[name], name))
    order = np.arange(1, len(names) + 1)
    reached = np.array([evidence[name] for name in names])
    enough = np.flatnonzero(reached >= np.log(len(names) / (rate * order)))
    return names, int(enough[-1]) + 1 if len(enough) else 0
