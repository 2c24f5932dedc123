"""Fewer points than rounds: means over equally many rounds, so that a long run fits on a page."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedmerit.report.ranking import Course

_Value = TypeVar("_Value")


def thinned(course: Course, each: int) -> Course:
    """Return a course with one point for `each` rounds in which the client took part.

    Scores, weights and p-values are means (of p-values the geometric one, as evidence adds up);
    the certificate is the largest; rewards are added up; of reasons the first that accuses is
    kept, or the first.
    """
    if each == 1 or not len(course.at):
        return course
    bins = course.at // each
    starts = np.flatnonzero(np.r_[True, bins[1:] != bins[:-1]])
    lengths = np.diff(np.r_[starts, len(bins)])
    accuses = np.array([False, *(why.accuses for why in course.whys)])
    return replace(
        course,
        at=bins[starts],
        score=_mean(course.score, starts, lengths),
        weight=_mean(course.weight, starts, lengths),
        p_value=np.exp(_mean(_log(course.p_value), starts, lengths)),
        epsilon=_largest(course.epsilon, starts),
        why=_worst(course.why, accuses, starts),
        reward=_added(course.reward, starts),
    )


def last_of_each(values: Sequence[_Value], each: int) -> list[_Value]:
    """Return the last of each so many values, and the last of all."""
    return [values[min(at + each, len(values)) - 1] for at in range(0, len(values), each)]


def _log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    logs: NDArray[np.float64] = np.log(np.maximum(values, 1e-300))
    return logs


def _mean(
    values: NDArray[np.float64], starts: NDArray[np.intp], lengths: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return means of runs of values, without what is no number; NaN where nothing is."""
    known = np.isfinite(values)
    sums = np.add.reduceat(np.where(known, values, 0.0), starts)
    counts = np.add.reduceat(known.astype(np.int64), starts)
    means = np.full(len(lengths), np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def _largest(values: NDArray[np.float64], starts: NDArray[np.intp]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.fmax.reduceat(values, starts)
    return found


def _worst(
    why: NDArray[np.int32], accuses: NDArray[np.bool_], starts: NDArray[np.intp]
) -> NDArray[np.int32]:
    weight = np.where(why == 0, 0, np.where(accuses[why], 2, 1)).astype(np.int64)
    order = np.arange(len(why))
    best = np.maximum.reduceat(weight * (len(why) + 1) + (len(why) - order), starts)
    places = len(why) - (best % (len(why) + 1))
    found: NDArray[np.int32] = why[places]
    return found


def _added(reward: NDArray[np.int64], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    given = reward >= 0
    sums = np.add.reduceat(np.where(given, reward, 0), starts)
    found: NDArray[np.int64] = np.where(np.logical_or.reduceat(given, starts), sums, -1)
    return found
