"""The few statistics the benchmarks report."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import fsum, nan, sqrt
from statistics import NormalDist, stdev

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Return ranks from 1; equal values share their mean rank."""
    _, place, count = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    shared: NDArray[np.float64] = (last - (count - 1) / 2)[place]
    return shared


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Return Spearman's rank correlation; NaN where either is constant.

    Examples
    --------
    >>> spearman([1, 2, 3, 4], [10, 20, 40, 30])
    0.8
    """
    a, b = ranks(first), ranks(second)
    a, b = a - a.mean(), b - b.mean()
    size = sqrt(float(a @ a) * float(b @ b))
    return round(float(a @ b) / size, 12) if size > 0 else nan


def roc_auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return the chance that one of `higher` exceeds one of `lower`, ties counted half."""
    if not higher or not lower:
        return nan
    placed = ranks([*higher, *lower])[: len(higher)].sum()
    wins = placed - len(higher) * (len(higher) + 1) / 2
    return float(wins / (len(higher) * len(lower)))


@dataclass(frozen=True)
class Rate:
    """A share of successes with Wilson's interval."""

    successes: int
    trials: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Successes per trial."""
        return self.successes / self.trials


def rate(successes: int, trials: int, confidence: float = 0.95) -> Rate:
    """Return a binomial share with its Wilson score interval."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, square = successes / trials, z * z / trials
    centre = (share + square / 2) / (1 + square)
    half = sqrt(share * (1 - share) * square + square * square / 4) / (1 + square)
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return Rate(successes, trials, low, high)


def precision_recall(found: Collection[int], wanted: Collection[int]) -> tuple[float, float]:
    """Return the share of `found` that is wanted, and the share of `wanted` that is found.

    Nothing found has no precision: NaN. Nothing wanted has no recall: NaN.
    """
    hits = len(set(found) & set(wanted))
    return (hits / len(found) if found else nan, hits / len(wanted) if wanted else nan)


def mean(values: Sequence[float]) -> float:
    """Return the mean of what is known (not NaN); NaN of nothing."""
    known = [value for value in values if value == value]
    return fsum(known) / len(known) if known else nan


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation of what is known; NaN of fewer than two."""
    known = [value for value in values if value == value]
    return stdev(known) if len(known) > 1 else nan
