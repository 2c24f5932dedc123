"""Statistics: p-values, quantiles, prediction intervals, and decisions with a stated error rate."""

from functools import lru_cache
from math import atan, erfc, exp, lgamma, pi, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.limits import LIMITS

FEWEST = 2  # values that have a spread
# Steps of an integral and of a search: far more exact than any decision needs.
_STEPS = 400
_HALVINGS = 40


def upper_tail(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability that a standard normal exceeds z."""
    tail: NDArray[np.float64] = np.vectorize(lambda x: 0.5 * erfc(x / sqrt(2)), otypes=[float])(z)
    return tail


@lru_cache(maxsize=64)
def upper_quantile(tail: float) -> float:
    """Return what a standard normal exceeds with probability `tail`."""
    return NormalDist().inv_cdf(1 - tail)


def agreeing_z(
    clients: int,
    ordered: NDArray[np.int64],
    z: NDArray[np.float64],
    share: float = LIMITS.agreeing_share,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return, per client, the z that the best `share` of its peers reach, and its p-value.

    `ordered` holds pairs (client, peer) and `z` one value for each. Of n peers, the r-th largest z
    is taken with r = ceil(share n), and its p-value is n / r times that of a single pair (at most
    1). That holds whatever the dependence between the pairs: if the r-th largest exceeds t then at
    least r of n exceed t, and by Markov's inequality the chance of that is at most n / r times the
    chance of one (Rueger, Metrika 25, 1978). r = 1 is Bonferroni.
    """
    peers = np.bincount(ordered[:, 0], minlength=clients)
    best_first = np.lexsort((-z, ordered[:, 0]))
    ranks = np.maximum(np.ceil(share * peers), 1).astype(np.int64)
    reached = z[best_first][np.cumsum(peers) - peers + ranks - 1]
    return reached, np.minimum(1.0, peers / ranks * upper_tail(reached))


def student_tail(t: float, freedom: int) -> float:
    """Probability that Student's t with so many degrees of freedom exceeds `t`.

    With ``t = sqrt(freedom) / tan(angle)`` it is the integral of ``sin(x)^(freedom - 1)`` from 0 to
    the angle, over that from 0 to pi.
    """
    if t < 0:
        return 1.0 - student_tail(-t, freedom)
    angle = pi / 2 if t == 0 else atan(sqrt(freedom) / t)
    places = np.linspace(0.0, angle, _STEPS + 1)
    values = np.sin(places) ** (freedom - 1)
    simpson = np.ones(_STEPS + 1)
    simpson[1:-1:2], simpson[2:-1:2] = 4.0, 2.0
    part = float(values @ simpson) * angle / (3 * _STEPS)
    return part * exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(pi)


@lru_cache(maxsize=1024)
def student_quantile(tail: float, freedom: int) -> float:
    """Return the t that is exceeded with probability `tail`, at most one half."""
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > tail:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > tail else (low, middle)
    return high


def mean_square_quantile(tail: float, freedom: float) -> float:
    """Return what the mean of so many squared standard normals exceeds with probability `tail`.

    By the cube root of it, which is nearly normal (Wilson and Hilferty, 1931).
    """
    part = 2 / (9 * freedom)
    return float((1 - part + upper_quantile(tail) * sqrt(part)) ** 3)


def discoveries(p_values: NDArray[np.float64], rate: float) -> NDArray[np.bool_]:
    """Return what Benjamini, Hochberg (1995) and Yekutieli (2001) reject at false discovery `rate`.

    With the harmonic factor of the latter the rate holds under any dependence: the clients of a
    round are compared with each other, so their p-values are not independent.
    """
    count = len(p_values)
    allowed = rate / (1.0 / np.arange(1, count + 1)).sum()
    order = np.argsort(p_values, kind="stable")
    below = p_values[order] <= allowed * np.arange(1, count + 1) / count
    accepted = np.zeros(count, dtype=np.bool_)
    if below.any():
        accepted[order[: np.flatnonzero(below)[-1] + 1]] = True
    return accepted


def middle_and_spread(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the median and the robust standard deviation."""
    centre = float(np.median(values))
    return centre, LIMITS.sd_per_mad * float(np.median(np.abs(values - centre)))


@lru_cache(maxsize=1024)
def spreads_below(count: int, rate: float) -> float:
    """Return how many spreads below the mean of so many values one more lies, but for `rate`."""
    return student_quantile(rate, count - 1) * sqrt(1 + 1 / count)


def far_below(value: float, others: NDArray[np.float64], rate: float) -> bool:
    """Return whether `value` lies below where one more of the `others` would, but for `rate`."""
    if len(others) < FEWEST:
        return False
    limit = spreads_below(len(others), rate) * float(np.std(others, ddof=1))
    return bool(value < np.mean(others) - limit)
