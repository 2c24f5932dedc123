"""What clients are worth, as the judges say who have a voice.

Near a model, accuracy is about linear in the update, and the mean update of a group moves it by the
mean of its members' effects. So a difference between two groups is ``shares @ worth`` plus the
judge's taste and noise, and `worth` is a regression over all judgements. It is known up to a
constant, as differences are; what the whole round gained fixes that.

Bounded influence: for every client, each judge's evidence about it counts up to Huber's 1.345
deviations of what the judges' evidence about it usually is. Without outliers this loses 5 % of
the precision of least squares; with them, what a minority can move is bounded, however loud it is.

Nobody is a judge in its own case: the worth of a client is taken from the fit without its own
judgements. Standard errors are those of leaving out judges one at a time (in groups where they are
many): what differs between judges, taste included, is in them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.limits import LIMITS
from fedmerit.intervals import LEVEL, student_quantile
from fedmerit.panel.book import HeardRound, Reals, Rows, rows_of
from fedmerit.panel.trust import folds_of, lowered, voices

# Derived: Huber's constant for 95 % efficiency with normal noise.
_HUBER = 1.345
_STEPS, _SCALE_STEPS = 40, 6
_SETTLED = 1e-6
# Two differences are the least that can tell whether differences are more than chance.
_FEWEST_TO_SHRINK = 3
_STEPS_OF_CHANCE = 1000
# What nobody judged has a worth of zero: far below what one judgement weighs.
_NOTHING = 1e-9


@dataclass(frozen=True)
class Estimate:
    """What every person is worth, and how much its judgements count.

    Attributes
    ----------
    people : tuple of str
        Clients and judges.
    worth : (n,) float
        What a round gains by a client's update, in units of the metric, up to a constant that is
        the same for all; zero for who was never judged.
    error : (n,) float
        Its standard error; NaN with fewer than two judges.
    voice : (n,) float
        From 0 to 1; 0 for who has not judged.
    freedom : int
        Degrees of freedom of the error.
    gains : (rounds,) float
        What each round gained, as the judges say who have a voice; NaN where nobody does.
    """

    people: tuple[str, ...]
    worth: Reals
    error: Reals
    voice: Reals
    freedom: int
    gains: Reals

    def half_width(self, level: float = LEVEL) -> Reals:
        """Return the half width of each worth's confidence interval."""
        if self.freedom < 1:
            return np.full(len(self.people), np.nan)
        return student_quantile(level, self.freedom) * self.error

    @property
    def reliability(self) -> float:
        """How much of the differences in worth would come back with other judges, from 0 to 1.

        The mean of what is left after chance when, before looking, every share is as likely as any
        other: a smooth form of James and Stein's. 0 where errors are unknown.
        """
        known = np.isfinite(self.error) & (self.worth != 0)
        if known.sum() < _FEWEST_TO_SHRINK:
            return 0.0
        errors = np.maximum(self.error[known], _NOTHING)
        excess = float(((self.worth[known] / errors) ** 2).sum()) / 2
        chance = (np.arange(_STEPS_OF_CHANCE) + 0.5) / _STEPS_OF_CHANCE
        # The largest is taken off before the exponential, or all would be zero.
        likely = (known.sum() - 1) / 2 * np.log(chance) - excess * chance
        weight = np.exp(likely - likely.max())
        return float(1 - weight @ chance / weight.sum())

    def of(self, client: str) -> tuple[float, float]:
        """Return the worth of a client and its standard error; nothing is known of a stranger."""
        if client not in self.people:
            return 0.0, float("nan")
        place = self.people.index(client)
        return float(self.worth[place]), float(self.error[place])


def estimate(rounds: tuple[HeardRound, ...], *, trusted: bool = True) -> Estimate:
    """Estimate from the judgements of `rounds`; with `trusted` False every judge has one voice."""
    rows = rows_of(rounds)
    if not len(rows.difference):
        nobody = np.zeros(len(rows.people))
        return Estimate(
            rows.people, nobody, nobody * np.nan, nobody, 0, _progress(rows.gains, nobody)
        )
    voice = voices(rows) if trusted else (rows.judged > 0).astype(np.float64)
    said = lowered(rows)
    judges = np.flatnonzero((rows.judged > 0) & (voice > 0))
    worth = _fit(rows, said, voice, np.ones(len(said), dtype=np.bool_))
    error = np.full(len(worth), np.nan)
    folds = folds_of(judges) if len(judges) > 1 else []
    if folds:
        without = np.array([_fit(rows, said, voice, ~np.isin(rows.judge, fold)) for fold in folds])
        spread = ((without - without.mean(axis=0)) ** 2).sum(axis=0)
        error = np.sqrt(spread * (len(folds) - 1) / len(folds))
        for fold, fitted in zip(folds, without, strict=True):
            worth[fold] = fitted[fold]
    return Estimate(
        rows.people, worth, error, voice, max(len(folds) - 1, 0), _progress(rows.gains, voice)
    )


def _progress(told: Reals, voice: Reals) -> Reals:
    """Return the mean gain of every round over judges, by voice."""
    seen = np.isfinite(told)
    weight = seen @ voice
    total = np.where(seen, told, 0.0) @ voice
    gains: Reals = np.divide(total, weight, out=np.full(len(weight), np.nan), where=weight > 0)
    return gains


def _fit(rows: Rows, said: Reals, voice: Reals, used: NDArray[np.bool_]) -> Reals:
    """Return the worth at which the judges' bounded evidence about every client cancels."""
    order = np.flatnonzero(used)
    order = order[np.argsort(rows.judge[order], kind="stable")]
    shares, said = rows.shares[order], said[order]
    judges, first = np.unique(rows.judge[order], return_index=True)
    loud, people = voice[judges], len(rows.people)
    weighed = shares * voice[rows.judge[order]][:, None]
    information = weighed.T @ shares
    ridge = _NOTHING * max(float(np.trace(information)) / people, 1.0)
    inverse = np.linalg.inv(information + ridge * np.eye(people))
    worth = inverse @ (weighed.T @ said)
    counted = (np.add.reduceat(shares**2, first) > 0) & (loud[:, None] > 0)
    bound = np.full(people, np.inf)
    for step in range(_STEPS):
        # What each judge (row) still has to say about each client, given this worth.
        evidence = np.add.reduceat(shares * (said - shares @ worth)[:, None], first)
        if step < _SCALE_STEPS:
            bound = _HUBER * LIMITS.sd_per_mad * _medians(np.abs(evidence), counted)
        change = inverse @ (loud @ np.clip(evidence, -bound, bound))
        worth = worth + change
        if float(np.abs(change).max()) <= _SETTLED:
            break
    return _centred(worth)


def _medians(values: Reals, counted: NDArray[np.bool_]) -> Reals:
    """Return the median of each column over what is counted; infinite where nothing is."""
    ordered = np.sort(np.where(counted, values, np.inf), axis=0)
    column, count = np.arange(values.shape[1]), counted.sum(axis=0)
    middles: Reals = ordered[np.maximum(count - 1, 0) // 2, column] + ordered[count // 2, column]
    return middles / 2


def _centred(worth: Reals) -> Reals:
    judged = worth != 0
    return np.where(judged, worth - worth[judged].mean(), 0.0) if judged.any() else worth
