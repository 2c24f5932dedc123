"""Which judges have a voice: those whom the others bear out.

Nobody at the server knows the truth, but honest judges share it and liars do not share their noise.
What a judge says of two groups is compared with what all *other* judges' answers predict for these
two groups, and what it says of a round's progress with the progress that the others saw. A judge
that answers at random agrees with that by 0, one that answers the opposite, or whose labels are
wrong, by less. Its voice is how sure we can be that its agreement is positive: contradicted or
empty judges lose their voice, they never get a negative one, and those who are borne out all have
the same, whatever their taste. Who has a voice changes what is predicted, so this is repeated.

Where many lie, predictions from all answers are worth nothing at first. So a sign for every judge
is looked for before, such that what they say, turned by their signs, agrees best; of the two camps
that this leaves, the larger one is believed. A panel in which most lie cannot be helped.

Agreements of judges are shrunk towards that of the whole panel, by as much as chance alone would
make them differ: in a panel that is of one mind, and in rounds that say little, nobody is
silenced.

What does not hold: liars who are right about the progress and agree among themselves are borne out
by each other. Below half of the panel, `estimate` bounds what they can move; it does not stop them.
"""

from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from fedmerit.panel.book import Reals, Rows

# Judges are left out of predictions one at a time, or in so many groups where there are more.
MOST_FOLDS = 32
# Chosen, as for the length of updates: nobody speaks more than twice as loud as is usual.
CLEARLY_LOUD = 2.0
# Predictions are shrunk by this share of the mean information there is on a client.
_SHRINKAGE = 0.3
_STEPS, _CAMP_STEPS = 20, 8
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
    limit = CLEARLY_LOUD * float(np.median(heard)) if len(heard) else 0.0
    factor = np.minimum(1.0, limit / np.maximum(loudness, _TINY))
    return np.asarray(rows.difference * factor[rows.judge])


def voices(rows: Rows) -> Reals:
    """Return the voice of every person, from 0 to 1; 0 for who has not judged."""
    count = rows.judged
    judges = np.flatnonzero(count)
    voice = (count > 0).astype(np.float64)
    if len(judges) < 3:
        return voice  # nobody can be borne out by a majority
    said = lowered(rows)
    gains = _lowered_gains(rows.gains)
    answers = count[judges] + np.isfinite(gains[:, judges]).sum(axis=0)
    voice = _larger_camp(rows, said, gains, judges)
    for _ in range(_STEPS):
        agreement = _agreement(rows, said, gains, voice, judges)
        found = _confidence(agreement, answers)
        if not found.any():
            return (count > 0).astype(np.float64)
        found = found / found.max()
        change = float(np.abs(found - voice[judges]).max())
        voice[judges] = (voice[judges] + found) / 2
        if change < _SETTLED:
            break
    return voice


def _larger_camp(rows: Rows, said: Reals, gains: Reals, judges: NDArray[np.int64]) -> Reals:
    """Return one voice for everybody in the larger of two camps that contradict each other."""
    side = np.zeros(len(rows.people))
    side[judges] = 1.0
    for _ in range(_CAMP_STEPS):
        agreement = _agreement(rows, said, gains, side, judges)
        if not agreement.any():
            break
        side[judges] = agreement / np.abs(agreement).max()
    larger = 1.0 if (side > 0).sum() * 2 >= len(judges) else -1.0
    return np.asarray(side * larger > 0, dtype=np.float64)


def _agreement(
    rows: Rows, said: Reals, gains: Reals, voice: Reals, judges: NDArray[np.int64]
) -> Reals:
    """Return how each judge agrees with what the others predict, from -1 to 1.

    A negative voice counts as that of somebody who says the opposite.
    """
    predicted = _predictions(rows, said, voice, judges)
    seen = np.isfinite(gains)
    known = np.where(seen, gains, 0.0)
    loud = np.abs(voice)
    others = (known @ voice)[:, None] - known * voice
    others = others / np.maximum((seen @ loud)[:, None] - seen * loud, _TINY)
    found = np.zeros(len(judges))
    # Comparisons and progress in units of their own size: each answer counts as one.
    size, step = _root_mean_square(said), _root_mean_square(known[seen])
    for place, judge in enumerate(judges):
        own, when = rows.judge == judge, seen[:, judge]
        expected = np.concatenate([_unit(predicted[own]), _unit(others[when, judge])])
        given = np.concatenate([said[own] / size, known[when, judge] / step])
        length = sqrt(float(expected @ expected) * float(given @ given))
        found[place] = float(expected @ given) / length if length > 0 else 0.0
    return found


def _predictions(rows: Rows, said: Reals, voice: Reals, judges: NDArray[np.int64]) -> Reals:
    """Return what the other judges' answers predict for every comparison."""
    weighed = rows.shares * np.abs(voice)[rows.judge][:, None]
    said = said * np.sign(voice)[rows.judge]
    information, evidence = weighed.T @ rows.shares, weighed.T @ said
    predicted = np.zeros(len(said))
    for fold in folds_of(judges):
        own = np.isin(rows.judge, fold)
        left = information - weighed[own].T @ rows.shares[own]
        shrinkage = _SHRINKAGE * float(np.trace(left)) / len(left) + _TINY
        worth = np.linalg.solve(
            left + shrinkage * np.eye(len(left)), evidence - weighed[own].T @ said[own]
        )
        predicted[own] = rows.shares[own] @ worth
    return predicted


def _confidence(agreement: Reals, answers: NDArray[np.int64]) -> Reals:
    """Return how sure it is that each agreement is positive: 0 from even chances downwards.

    Agreements are taken as normal around the panel's mean, with the variance that is left over when
    that of chance, 1 / answers, is taken off.
    """
    chance = 1 / np.maximum(answers, 1)
    mean = float(agreement.mean())
    spread = max(float(agreement.var(ddof=1)) - float(chance.mean()), 0.0)
    likely = (agreement * spread + mean * chance) / (spread + chance)
    deviation = np.sqrt(spread * chance / (spread + chance))
    ratio = likely / np.maximum(deviation, _TINY)
    return np.array([max(erf(value / sqrt(2)), 0.0) for value in ratio])


def _lowered_gains(gains: Reals) -> Reals:
    """Return the progress that judges saw, with loud judges lowered."""
    seen = np.isfinite(gains)
    squares = np.where(seen, gains, 0.0) ** 2
    loudness = np.sqrt(squares.sum(axis=0) / np.maximum(seen.sum(axis=0), 1))
    heard = loudness[seen.any(axis=0)]
    limit = CLEARLY_LOUD * float(np.median(heard)) if len(heard) else 0.0
    return np.asarray(gains * np.minimum(1.0, limit / np.maximum(loudness, _TINY)))


def _unit(values: Reals) -> Reals:
    return values / _root_mean_square(values)


def _root_mean_square(values: Reals) -> float:
    return max(sqrt(float(values @ values) / max(len(values), 1)), _TINY)
