"""Bets that a client's updates harm the model: evidence over rounds.

In every round each judge has an opinion of each client: what the client's update adds to the
model, the round's progress included. Their mean over judges in units of its standard error is x.
The bet multiplies a wealth by

    exp(-d x - d^2 / 2),

whose expectation is at most 1 for every client that does no harm (x is at least 0 on average),
whatever the stake d is, as long as it is chosen before looking at x. So it is an e-process: the
chance that it ever reaches 1/a is at most a, and e-values give a false discovery rate over clients
under any dependence, as for the bets of `fedmerit.evidence.bets`.

The stake d is what a typical client of the round adds, in the same units: as much harm as others
help. Wealth grows, on average, for who harms more than half of that; so a client that is a little
below zero, as half of all honest ones are where nothing is gained any more, is not named. Where a
round gains nothing, d is zero and nothing is bet. Judges are few: x is turned from a Student
variable into a normal one.
"""

from collections.abc import Mapping
from math import copysign, isfinite, log, log1p, sqrt

import numpy as np

from fedmerit.evidence.limits import LIMITS
from fedmerit.panel.book import HeardRound, Reals
from fedmerit.panel.estimate import Estimate

_FEWEST_JUDGES = 3


def bet_on_harm(
    known: Mapping[str, float],
    heard: HeardRound,
    before: Estimate,
    voice: Mapping[str, float],
    weights: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the logarithm of every client's wealth after a round.

    Parameters
    ----------
    known : mapping of client to float
        Before it.
    heard : HeardRound
    before : Estimate
        From the rounds before: what it says of the others is taken off an opinion of a client.
    voice : mapping of judge to float
        Of earlier rounds; a new judge has a full one.
    weights : mapping of client to float, optional
        What each client weighs in the model, whose progress it is; zero for those kept out of it.
        As in groups, if not given.
    """
    inside = np.array(heard.weights)
    if weights is not None and any(weights.values()):
        inside = np.array([weights[client] for client in heard.clients])
    worth = np.array([before.of(client)[0] for client in heard.clients])
    worth = worth - (inside @ worth) / inside.sum()
    effects = _effects(heard, worth, voice)
    after = dict(known)
    if not effects:
        return after
    gained = sum(gain * voice.get(judge, 1.0) for judge, gain in heard.gains.items()) > 0
    typical = max(float(np.median([mean for mean, _, _ in effects.values()])), 0.0) * gained
    for client, (mean, error, freedom) in effects.items():
        stake = min(typical / error, LIMITS.largest_bet)
        # One odd round must not decide alone.
        shown = max(_normal(mean / error, freedom), -LIMITS.significant)
        after[client] = after.get(client, 0.0) - stake * shown - stake * stake / 2
    return after


def harmful(wealth: Mapping[str, float], rate: float) -> list[str]:
    """Return who is said to harm the model, at this false discovery rate, the worst first."""
    if rate == 0 or not wealth:
        return []
    names = sorted(wealth, key=lambda name: (-wealth[name], name))
    enough = [
        place
        for place, name in enumerate(names, start=1)
        if wealth[name] >= log(len(names) / (rate * place))
    ]
    return names[: enough[-1]] if enough else []


def _effects(
    heard: HeardRound, worth: Reals, voice: Mapping[str, float]
) -> dict[str, tuple[float, float, float]]:
    """Return, by client, the mean effect over judges, its standard error and its freedom.

    What is known of the others' `worth` is taken off an opinion of a client.
    """
    shares, difference = heard.shares(), np.array(heard.differences)
    rest = difference - shares @ worth
    judge = [name for name, _, _ in heard.pairs]
    judges = [name for name in dict.fromkeys(judge) if name in heard.gains]
    number_of = {name: number for number, name in enumerate(judges)}
    places = np.array([number_of.get(name, -1) for name in judge], dtype=np.int64)
    used = places >= 0
    found = {}
    for number, client in enumerate(heard.clients):
        own = shares[:, number]
        seen = used & (own != 0)
        information = np.bincount(places[seen], own[seen] ** 2, len(judges))
        evidence = np.bincount(places[seen], own[seen] * rest[seen], len(judges))
        who = np.flatnonzero(information > 0)
        opinions = worth[number] + evidence[who] / information[who]
        opinions = opinions + np.array([heard.gains[judges[place]] for place in who])
        loud = np.array([voice.get(judges[place], 1.0) for place in who])
        summary = _mean(opinions, loud)
        if summary is not None:
            found[client] = summary
    return found


def _mean(values: Reals, weights: Reals) -> tuple[float, float, float] | None:
    """Return mean, standard error and degrees of freedom; None where there is no error to tell."""
    total = float(weights.sum())
    if (weights > 0).sum() < _FEWEST_JUDGES:
        return None
    count = total**2 / float(weights @ weights)
    mean = float(weights @ values) / total
    spread = float(weights @ (values - mean) ** 2) / total * count / (count - 1)
    error = sqrt(spread / count)
    return (mean, error, count - 1) if error > 0 and isfinite(error) else None


def _normal(value: float, freedom: float) -> float:
    """Return the normal variable that is as unlikely as a Student one (Wallace, 1959)."""
    size = sqrt(freedom * log1p(value * value / freedom))
    return copysign(size * (8 * freedom + 1) / (8 * freedom + 3), value)
