"""Lengths of updates, against what their data sizes account for.

Scores that look at directions do not see length, and an average does: who sends its update a
hundred times takes it over. But large clients send long updates, skewed data make some longer than
others, and an honest client's training may break out for a round. So an update is shortened only if
it is far out for its round and its size, and those who are would move the model further than all
the others together.
"""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.decisions import student_quantile
from fedmerit.evidence.gate import middle_and_spread
from fedmerit.evidence.limits import LIMITS

Floats = NDArray[np.float64]


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

    The slope is the median over pairs (Theil and Sen).
    """
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
        Those whose work the round shows: what is usual among them is the yardstick.
    rate : float
        Chance that one of these lengths is called far out although all come from one kind.
    """
    keep = np.ones(len(norms))
    counted = (norms > 0) & (weights > 0)
    known = counted & members
    if known.sum() <= LIMITS.fewest_members:
        return keep
    lengths = np.log(np.where(counted, norms, 1.0))
    if sizes is not None:
        growth = growth_of(norms[known], sizes[known])
        if growth is not None:
            # Length grows with the number of steps, and at most in proportion to it.
            lengths = lengths - float(np.clip(growth.slope, 0.0, 1.0)) * np.log(sizes)
    centre, spread = middle_and_spread(lengths[known])
    excess = lengths - centre
    limit = student_quantile(rate / int(counted.sum()), int(known.sum()) - 1) * spread
    far_out = counted & (excess > max(limit, log(LIMITS.clearly_long)))
    rest = counted & ~far_out
    moved = weights * norms
    if weights[far_out].sum() < weights[rest].sum() and moved[far_out].sum() > moved[rest].sum():
        keep[far_out] = np.exp(-excess[far_out])
    return keep
