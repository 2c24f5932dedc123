"""Which judges have a voice: all but those whom the others contradict.

Nobody at the server knows the truth, but honest judges share it. Three things that a judge says can
be held against something:

- what it says of two groups, against its *own update*, which was made from the same data
  (`fedmerit.panel.own`): this alone tells a liar where honest judges differ;
- what it saw of the *progress* of every round, against the median of what the others saw: who says
  the opposite of everything, or whose labels are turned round, sees accuracy fall when it rises;
- what it says of two groups, against what all *other* judges' answers predict for these two.

For the latter two, a voice is 1 where the agreement is not negative. Below, it is twice the chance
that it is negative by accident only: who answers at random, or whose data are of another kind,
costs precision and keeps a voice, who contradicts the others loses it, and nobody gets a negative
one. Who has a voice changes what is predicted, so this is repeated.

About groups honest judges differ, since their data do. So agreements are first shrunk towards that
of the whole panel, by as much as chance alone would make them differ; and nobody is silenced for
them but as far as it is sure that the panel is of one mind at all. Where every judge knows two
classes of ten it is not, and then what a judge says of groups tells nothing about the judge.

What does not hold: liars who also send an update that bears out their lie, if they are right about
the progress; and lies that are small beside what chance makes of an answer.
"""

from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.limits import LIMITS
from fedmerit.panel.book import Reals, Rows
from fedmerit.panel.own import own_voices

# Judges are left out of predictions one at a time, or in so many groups where there are more.
MOST_FOLDS = 32
_STEPS = 20
_SETTLED = 0.01
_TINY = 1e-12


def folds_of(judges: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return groups of judges that are left out together: one each, unless they are many."""
    return [np.sort(part) for part in np.array_split(judges, min(len(judges), MOST_FOLDS))]


def lowered(rows: Rows) -> Reals:
    """Return the differences with loud judges lowered: no voice is louder than twice the usual."""
    counts = np.maximum(rows.judged, 1)
    loudness = np.sqrt(np.bincount(rows.judge, rows.difference**2, len(rows.people)) / counts)
    heard = loudness[rows.judged > 0]
    limit = LIMITS.clearly_loud * float(np.median(heard)) if len(heard) else 0.0
    factor = np.minimum(1.0, limit / np.maximum(loudness, _TINY))
    return np.asarray(rows.difference * factor[rows.judge])


def voices(rows: Rows) -> Reals:
    """Return the voice of every person, from 0 to 1; 0 for who has not judged."""
    count = rows.judged
    judges = np.flatnonzero(count)
    everybody = (count > 0).astype(np.float64)
    if len(judges) < LIMITS.fewest_to_outvote:
        return everybody  # nobody can be borne out by a majority
    said = lowered(rows)
    # However much a judge says, its taste is one vector over the clients.
    compared = int((rows.shares != 0).any(axis=0).sum()) - 1
    freedom = np.minimum(count[judges], max(compared - 1, 1))
    progress = progress_voices(rows.gains[:, judges]) * own_voices(rows)[judges]
    voice = np.zeros(len(rows.people))
    voice[judges] = progress
    for _ in range(_STEPS):
        agreement = _agreement(rows, said, voice, judges)
        doubt = 1 - _not_negative(*_shrunk(agreement, freedom))
        found = progress * (1 - _of_one_mind(agreement, voice[judges]) * doubt)
        if not found.any():
            return everybody
        found = found / found.max()
        change = float(np.abs(found - voice[judges]).max())
        voice[judges] = (voice[judges] + found) / 2
        if change < _SETTLED:
            break
    return voice


def progress_voices(gains: Reals) -> Reals:
    """Return how far each judge's word about the progress stands, from `gains` (rounds, judges)."""
    found = np.ones(gains.shape[1])
    for fold in folds_of(np.arange(gains.shape[1])) if gains.size else []:
        others = np.delete(gains, fold, axis=1)
        told = np.isfinite(others).sum(axis=1) >= LIMITS.fewest_to_outvote - 1
        usual = np.zeros(len(gains))
        usual[told] = np.nanmedian(others[told], axis=1)
        for judge in fold:
            seen = told & np.isfinite(gains[:, judge])
            agreement = np.array([_cosine(gains[seen, judge], usual[seen])])
            found[judge] = _not_negative(agreement, 1 / np.sqrt(max(seen.sum(), 1)))[0]
    return found


def _agreement(rows: Rows, said: Reals, voice: Reals, judges: NDArray[np.int64]) -> Reals:
    """Return how each judge agrees with what the others predict, from -1 to 1."""
    predicted = _predictions(rows, said, voice, judges)
    own = (rows.judge == judge for judge in judges)
    return np.array([_cosine(predicted[answers], said[answers]) for answers in own])


def _predictions(rows: Rows, said: Reals, voice: Reals, judges: NDArray[np.int64]) -> Reals:
    """Return what the other judges' answers predict for every comparison."""
    weighed = rows.shares * voice[rows.judge][:, None]
    information, evidence = weighed.T @ rows.shares, weighed.T @ said
    predicted = np.zeros(len(said))
    for fold in folds_of(judges):
        own = np.isin(rows.judge, fold)
        left = information - weighed[own].T @ rows.shares[own]
        shrinkage = LIMITS.prediction_shrinkage * float(np.trace(left)) / len(left) + _TINY
        worth = np.linalg.solve(
            left + shrinkage * np.eye(len(left)), evidence - weighed[own].T @ said[own]
        )
        predicted[own] = rows.shares[own] @ worth
    return predicted


def _of_one_mind(agreement: Reals, voice: Reals) -> float:
    """Return how sure it is that judges with a voice agree on average: 0 from even chances down."""
    count = float(voice.sum()) ** 2 / float(voice @ voice)
    mean = float(voice @ agreement) / float(voice.sum())
    spread = float(voice @ (agreement - mean) ** 2) / float(voice.sum())
    return max(erf(mean * sqrt(count / 2) / max(sqrt(spread), _TINY)), 0.0)


def _shrunk(agreement: Reals, answers: NDArray[np.int64]) -> tuple[Reals, Reals]:
    """Return agreements and their deviations, taken as normal around the panel's mean.

    Their variance is what is left over when that of chance, 1 / answers, is taken off.
    """
    chance = 1 / np.maximum(answers, 1)
    mean = float(agreement.mean())
    spread = max(float(agreement.var(ddof=1)) - float(chance.mean()), 0.0)
    likely = (agreement * spread + mean * chance) / (spread + chance)
    return likely, np.sqrt(spread * chance / (spread + chance))


def _not_negative(values: Reals, deviations: Reals | float) -> Reals:
    """Return 1, or twice the chance that a value which is not below 0 comes out so low."""
    ratio = values / np.maximum(deviations, _TINY)
    return np.array([1 + min(erf(value / sqrt(2)), 0.0) for value in ratio])


def _cosine(first: Reals, second: Reals) -> float:
    length = sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / length if length > 0 else 0.0
