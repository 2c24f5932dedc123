"""Information: what a report tells about the others that nobody could know without the client.

The private part of a report is what neither the public nor the client's own earlier reports
explain of it. A client's testimony is what its reports have told so far: the mean of their private
parts, each at length one, the newest counting a third. It tells as much about the others as it
points where they go now: the mean cosine with the reports of the members of the cohort, where
pointing apart counts as nothing. So a report that is longer, or mixed with anything that was known
before, tells the same; and what one told is worth more if it comes true.
"""

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.decisions import middle_and_spread
from fedmerit.evidence.limits import LIMITS
from fedmerit.kernels.products import products_between
from fedmerit.types import FloatArray

Matrix = NDArray[np.float64]
Values = NDArray[np.float64]
Booleans = NDArray[np.bool_]


def tell(
    private: FloatArray,
    left: Values,
    before: FloatArray | None,
    reports: FloatArray,
    norms: Values,
    same: Matrix,
    members: Booleans,
) -> tuple[Values, FloatArray]:
    """Return what each client tells about the others, (k,), and its testimony, (k, d).

    What a report tells now is known of everybody. Of what clients told before, differences from
    what is usual count, in proportion where that is more than what is usual now. So who has told
    nothing before is compared with the others by what it tells now, and where nothing has come true
    of what was told, nothing counts.

    Parameters
    ----------
    private : (k, d) array
        What only the client could know of its report, of which it is the share `left`, (k,). Who
        has nothing left tells nothing.
    before : (k, d) array or None
        The testimony of earlier rounds, zeros for a newcomer.
    reports : (k, d) array
        Where the others go now; `norms`, (k,), are their lengths.
    same : (k, k) array
        How far two accounts are one work: these count once, and nothing for each other.
    members : (k,) bool array
        Whose reports count.
    """
    weights = np.where(members, (1 - same) / (1 + same.sum(axis=1)), 0.0)
    np.fill_diagonal(weights, 0.0)
    units = _units(private, left * norms)
    now = np.where(left > 0, _toward(units, reports, norms, weights), 0.0)
    if before is None:
        return now, units
    known = np.any(before, axis=1)
    share = np.where(known, LIMITS.newest, 1.0)
    told, usual = now, known & members
    if usual.any():
        past = _toward(before, reports, norms, weights)
        middle, of_past = float(np.median(now[usual])), float(np.median(past[usual]))
        if middle > 0 and of_past > 0:
            past = middle + (past - of_past) * min(middle / of_past, 1.0)
            told = np.where(left > 0, share * now + (1 - share) * past, 0.0)
    testimony: FloatArray = units * share.astype(units.dtype)[:, None]
    testimony += before * (1 - share).astype(units.dtype)[:, None]
    return told, testimony


def _units(private: FloatArray, lengths: Values) -> FloatArray:
    """Return the private parts at length one; zeros where there is nothing."""
    units = np.zeros_like(private)
    # In float64: the length of a float32 vector may be no float32.
    np.divide(
        private,
        lengths[:, None],
        out=units,
        where=lengths[:, None] > 0,
        dtype=np.float64,
        casting="same_kind",
    )
    return units


def _toward(rows: FloatArray, reports: FloatArray, norms: Values, weights: Matrix) -> Values:
    """Return how far each of the rows points where the reports do, on the weighted mean, (k,).

    What independent vectors show on average is nothing, and less than one standard deviation of it
    cannot be told from that.
    """
    products = products_between(rows, reports)
    cosines = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    total = weights.sum(axis=1)
    mean = np.divide(
        (weights * np.maximum(cosines, 0.0)).sum(axis=1),
        total,
        out=np.zeros_like(total),
        where=total > 0,
    )
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    by_chance = lengths / np.sqrt(rows.shape[1])
    peers = max(int(np.any(weights > 0, axis=0).sum()) - 1, 1)
    error = LIMITS.positive_deviation * by_chance / np.sqrt(peers)
    toward: Values = np.maximum(mean - LIMITS.positive_part * by_chance, error)
    return toward


def shrunk(values: Values, counted: Booleans, past: Values | None) -> Values:
    """Return the `values` with only those differences between clients that last.

    A difference from the median of the `counted` is kept in the measure in which such differences
    were there in earlier rounds (`past`, what clients told relative to the median, on average; NaN
    for a newcomer), but moved by two standard deviations of the round at most, as in the limited
    translation estimators of Efron and Morris (1972). It is a difference of logarithms: who tells
    nothing is paid nothing.
    """
    used = counted & (values > 0)
    if not used.any():
        return np.zeros_like(values)
    logs = np.log(values[used])
    centre, spread = middle_and_spread(logs)
    offset = logs - centre
    share = LIMITS.least_lasting if past is None else _lasting(np.exp(offset), past[used])
    size = np.maximum(share * np.abs(offset), np.abs(offset) - LIMITS.moved * spread)
    result = np.zeros_like(values)
    result[used] = np.exp(centre + np.sign(offset) * size)
    return result


def _lasting(now: Values, past: Values) -> float:
    """Return which share of the differences between clients lasts, at least.

    The slope of the past on this round is the share of the variance that is not the round's own;
    what counts is the slope less one standard error.
    """
    known = ~np.isnan(past)
    freedom = int(known.sum()) - 2
    if freedom < 1:
        return LIMITS.least_lasting
    apart, before = now[known] - now[known].mean(), past[known] - past[known].mean()
    variance = float(apart @ apart)
    if variance == 0:
        return LIMITS.least_lasting
    slope = float(apart @ before) / variance
    error = np.sqrt(float(np.square(before - slope * apart).sum()) / freedom / variance)
    return float(np.clip(slope - error, LIMITS.least_lasting, 1.0))
