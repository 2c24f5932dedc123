"""Lengths of updates, against what their data sizes account for.

Scores that look at directions do not see length, and an average does: who sends its update a
hundred times takes it over. But large clients send long updates, skewed data make some longer than
others, and an honest client's training may break out for a round. So an update is shortened only if
it is far out for its round and its size, and those who are would move the model further than all
the others together, in the direction of these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.decisions import middle_and_spread, student_quantile
from fedmerit.evidence.limits import LIMITS

Floats = NDArray[np.float64]
_MOST_COMPARED = 1000  # clients, with each other
_CLEARLY = log(LIMITS.clearly_long)


@dataclass(frozen=True)
class Growth:
    """How lengths grow with claimed sizes, on a log scale, and how exactly that is known."""

    slope: float
    error: float

    @property
    def shown(self) -> bool:
        """Whether lengths grow with sizes beyond chance."""
        return self.slope > LIMITS.growth_errors * self.error


def growth_of(norms: Floats, sizes: Floats) -> Growth | None:
    """Return how lengths grow with sizes; None where sizes are too much alike to tell.

    The slope is the median over pairs (Theil and Sen); of many clients, over those of some.
    """
    if len(sizes) > _MOST_COMPARED:
        some = np.linspace(0, len(sizes) - 1, _MOST_COMPARED).astype(np.int64)
        norms, sizes = norms[some], sizes[some]
    first, second = np.triu_indices(len(sizes), 1)
    known = np.log(sizes)
    apart = known[first] - known[second]
    told = np.abs(apart) > LIMITS.sizes_apart
    if told.sum() < len(sizes):
        return None
    lengths = np.log(norms)
    slopes = (lengths[first] - lengths[second])[told] / apart[told]
    slope, spread = middle_and_spread(slopes)
    return Growth(slope, spread / sqrt(len(sizes)))


def kept_share(
    norms: Floats,
    sizes: Floats | None,
    weights: Floats,
    members: NDArray[np.bool_],
    rate: float,
    along: Callable[[NDArray[np.bool_]], Floats],
) -> Floats:
    """Return the share of every update that is kept, (k,): 1 where it is not too long.

    Parameters
    ----------
    norms : (k,) float
    sizes : (k,) float or None
        Claimed data sizes, where they are known.
    weights : (k,) float
        What every update weighs.
    members : (k,) bool
        Those whose work the round shows: what is usual among them is the yardstick; among all,
        where it shows that of few.
    rate : float
        Chance that one of these lengths is called far out although all come from one kind.
    along : callable
        From some of the clients, (k,) bool, to how long every update is in the direction in which
        these move the model, (k,). Noise makes updates long, but not in that direction, and cancels
        in a mean.
    """
    keep = np.ones(len(norms))
    counted = (norms > 0) & (weights > 0)
    if (counted & members).sum() <= LIMITS.fewest_members:
        members = np.ones_like(members)
    lengths, room = _given_size(norms, sizes, counted, counted & members)
    longest = np.argsort(np.where(counted, lengths - room, -np.inf))[::-1]
    for size in range(int(counted.sum()) // 2, 0, -1):
        out = np.zeros_like(counted)
        out[longest[:size]] = True
        rest, usual = counted & ~out, counted & ~out & members
        if weights[out].sum() >= weights[rest].sum() or usual.sum() < LIMITS.fewest_members:
            continue
        excess = lengths - float(np.mean(lengths[usual])) - room
        least = excess[out].min()
        if least <= _CLEARLY or least <= _far(lengths[usual], rate / int(counted.sum())):
            continue
        pulls = weights * along(rest)
        if pulls[out].sum() > pulls[rest].sum():
            keep[out] = np.exp(-excess[out])
            break
    return keep


def _given_size(
    norms: Floats, sizes: Floats | None, counted: NDArray[np.bool_], known: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Return log lengths less what sizes account for, and how much more they might, (k,) each.

    Length grows with the number of steps, and at most in proportion to it. Where the round does not
    show how fast, every growth from none to that counts in favour of a client.
    """
    lengths = np.log(np.where(counted, norms, 1.0))
    if sizes is None or not known.any():
        return lengths, np.zeros(len(norms))
    growth = growth_of(norms[known], sizes[known]) or Growth(0.5, 0.5 / LIMITS.growth_errors)
    error = LIMITS.growth_errors * growth.error
    least, middle, most = np.clip(growth.slope + np.array([-error, 0.0, error]), 0.0, 1.0)
    larger = np.log(sizes) - float(np.mean(np.log(sizes[known])))
    room = np.maximum((least - middle) * larger, (most - middle) * larger)
    return lengths - middle * larger, room


def _far(usual: Floats, rate: float) -> float:
    """Return how far above their mean one more of the `usual` log lengths lies, but for `rate`."""
    count = len(usual)
    spread = float(np.std(usual, ddof=1)) * sqrt(1 + 1 / count)
    return max(student_quantile(rate, count - 1) * spread, _CLEARLY)
