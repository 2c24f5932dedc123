"""Bets that a client's updates harm the model: evidence over rounds.

In every round the judges' answers tell what each client's update adds to the model, the round's
progress included; in units of its standard error that is x. The bet multiplies a wealth by

    exp(-d x - v d^2 / 2),

where v is a little above 1, the variance of a Student variable. For normal x and v = 1 its
expectation is at most 1 for every client that does no harm (x is at least 0 on average), whatever
the stake d is, as long as it is chosen before looking at x. The stake is in units of the same
error, which is estimated; v is for that, and simulation shows that it is enough. So it is an
e-process: the chance that it ever reaches 1/a is at most a, and e-values give a false discovery
rate over clients under any dependence, as for the bets of `fedmerit.evidence.bets`.

The stake d is what a typical client of the round adds, in the same units: as much harm as others
help. Wealth grows, on average, for who harms more than half of that; so a client that is a little
below zero, as half of all honest ones are where nothing is gained any more, is not named. Where a
round gains nothing, d is zero and nothing is bet. Nothing is bet either on whom nobody suspects:
earlier rounds say that it helps, and no wealth stands against it. Otherwise the first rounds, in
which everybody helps, would cost so much that harm in later ones is not seen.

What a client adds is told by the answers of a round together: a half is one client and nine others,
and what these add is not noise. They are fitted at the same time, drawn towards what earlier rounds
say of them, to the scale of this round and as far as it makes likely; the client itself is not
drawn anywhere, so its x is fair. Standard errors are those of leaving out judges. Judges are few:
x is turned from a Student variable into a normal one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import copysign, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.limits import LIMITS
from fedmerit.panel.book import HeardRound, Reals
from fedmerit.panel.estimate import Estimate
from fedmerit.panel.trust import folds_of

# How strongly others are drawn to what is known of them, times the mean information on a client:
# from hardly to hardly anything else.
_DRAWN = 2.0 ** np.arange(-6, 7)
_TINY = 1e-12


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
    after = dict(known)
    effects = _effects(heard, worth, voice)
    if effects is None:
        return after
    gain = _mean_gain(heard, voice)
    # Of a Student variable: what the error's own error costs, since the stake follows it too.
    variance = effects.freedom / (effects.freedom - 2)
    typical = max(float(np.median(effects.mean)), 0.0) * (gain > 0)
    for place, client in enumerate(heard.clients):
        suspected = worth[place] + gain < 0 or after.get(client, 0.0) > 0
        error = effects.error[place]
        after.setdefault(client, 0.0)
        if not (suspected and error > 0):
            continue
        stake = min(typical / error, LIMITS.largest_bet)
        # One odd round must not decide alone.
        shown = max(_normal(effects.mean[place] / error, effects.freedom), -LIMITS.significant)
        after[client] -= stake * shown + stake * stake * variance / 2
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


@dataclass(frozen=True)
class _Effects:
    """What every client of a round adds, `mean`, its standard error and degrees of freedom."""

    mean: Reals
    error: Reals
    freedom: int


def _effects(heard: HeardRound, worth: Reals, voice: Mapping[str, float]) -> _Effects | None:
    """Return what the clients of a round add; None where judges are too few to tell an error.

    `worth` is what earlier rounds say of them.
    """
    judges = [
        name
        for name in dict.fromkeys(judge for judge, _, _ in heard.pairs)
        if name in heard.gains and voice.get(name, 1.0) > 0
    ]
    if len(judges) < LIMITS.fewest_judges:
        return None
    number_of = {name: number for number, name in enumerate(judges)}
    judge = np.array([number_of.get(name, -1) for name, _, _ in heard.pairs], dtype=np.int64)
    used = judge >= 0
    judge, shares = judge[used], heard.shares()[used]
    said = np.array(heard.differences)[used]
    loud = np.array([voice.get(name, 1.0) for name in judges])
    worth = _to_scale(worth, shares, said, loud[judge])
    rest = said - shares @ worth
    gains = np.array([heard.gains[name] for name in judges])
    itself = np.array([[client != name for name in judges] for client in heard.clients])
    drawn = _likely_drawing(shares, rest, loud[judge])

    def fitted(there: NDArray[np.bool_]) -> Reals:
        """Return the effects as the judges say who are `there`; nobody speaks of itself."""
        heeded = loud * there
        progress = itself @ (heeded * gains) / np.maximum(itself @ heeded, _TINY)
        found: Reals = worth + _fit(shares, rest, heeded[judge], drawn) + progress
        return found

    everybody = np.ones(len(judges), dtype=np.bool_)
    folds = folds_of(np.arange(len(judges)))
    without = np.array([fitted(~np.isin(np.arange(len(judges)), fold)) for fold in folds])
    spread = ((without - without.mean(axis=0)) ** 2).sum(axis=0)
    error = np.sqrt(spread * (len(folds) - 1) / len(folds))
    # An error that is small by accident would make both the stake and what is shown large.
    error = np.maximum(error, np.sqrt(np.mean(error**2)))
    return _Effects(fitted(everybody), error, len(folds) - 1)


def _to_scale(worth: Reals, shares: Reals, said: Reals, loud: Reals) -> Reals:
    """Return what earlier rounds say of clients, as much of it as this round bears out.

    Rounds gain less and less: what told clients apart in the first is ten times too much later.
    """
    predicted = shares @ worth
    size = float(loud @ predicted**2)
    share = float(loud @ (predicted * said)) / size if size > 0 else 0.0
    return worth * min(max(share, 0.0), 1.0)


def _fit(shares: Reals, rest: Reals, loud: Reals, drawn: float) -> Reals:
    """Return each client's part of `rest`, fitted with all others drawn to zero, itself not."""
    weighed = shares * loud[:, None]
    inverse = np.linalg.inv(weighed.T @ shares + drawn * np.eye(shares.shape[1]))
    # Taking a penalty off one coordinate changes it by a factor (Sherman and Morrison).
    free = 1 - drawn * np.diag(inverse)
    fitted = inverse @ (weighed.T @ rest)
    return np.divide(fitted, free, out=np.zeros(len(free)), where=free > _TINY)


def _likely_drawing(shares: Reals, rest: Reals, loud: Reals) -> float:
    """Return how strongly clients are drawn to zero where `rest` is most likely, as normal noise.

    Its covariance is then ``I + shares shares' / drawn``, up to a factor that is fitted as well.
    """
    root = np.sqrt(loud)
    usual = float(((shares * root[:, None]) ** 2).sum()) / shares.shape[1]
    values, vectors = np.linalg.eigh((shares * root[:, None]) @ (shares * root[:, None]).T)
    squares = (vectors.T @ (rest * root)) ** 2
    spread = 1 + np.maximum(values, 0.0) / (usual * _DRAWN[:, None] + _TINY)
    noise = np.log((squares / spread).sum(axis=1) + _TINY**2)
    likely = -np.log(spread).sum(axis=1) - len(rest) * noise
    return float(usual * _DRAWN[np.argmax(likely)] + _TINY)


def _mean_gain(heard: HeardRound, voice: Mapping[str, float]) -> float:
    """Return what the round gained, by voice."""
    loud = np.array([voice.get(judge, 1.0) for judge in heard.gains])
    return float(loud @ np.array(list(heard.gains.values()))) / max(float(loud.sum()), _TINY)


def _normal(value: float, freedom: float) -> float:
    """Return the normal variable that is as unlikely as a Student one (Wallace, 1959)."""
    size = sqrt(freedom * log1p(value * value / freedom))
    return copysign(size * (8 * freedom + 1) / (8 * freedom + 3), value)
