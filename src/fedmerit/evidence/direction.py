"""Who points against the others: clients whose work is real and turned round."""

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.gate import far_below
from fedmerit.evidence.limits import LIMITS


def points_against(cosine: NDArray[np.float64], members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return who points against the cohort, (k,), from the cosines of updates.

    Most members point one way if nine of ten pairs of them have a positive cosine. A client points
    against them if nine of ten of its cosines with them are negative, and their mean lies below a
    prediction interval of the members' own, but for one round in a hundred over all clients. Where
    the members have no common direction, as with few classes each, or fewer than seven have one,
    nobody does.
    """
    against = np.zeros(len(members), dtype=np.bool_)
    fewest = LIMITS.fewest_usual - 1
    if members.sum() < fewest:
        return against
    way = members & (with_most(cosine, members) > 0)
    count = int(way.sum())
    if 2 * count <= members.sum() or count < fewest:
        return against
    pairs = np.triu(np.logical_and.outer(way, way), 1)
    if np.quantile(cosine[pairs], LIMITS.odd_pairs) <= 0:
        return against
    means = (cosine[:, way].sum(axis=1) - way) / (count - way)
    for client in np.flatnonzero(~way):
        most = float(np.quantile(cosine[client, way], 1 - LIMITS.odd_pairs))
        rate = LIMITS.honest_event / len(members)
        against[client] = most < 0 and far_below(float(means[client]), means[way], rate)
    return against


def with_most(cosine: NDArray[np.float64], members: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return each client's median cosine with the members other than itself, (k,)."""
    apart = cosine.copy()
    np.fill_diagonal(apart, np.inf)
    ordered = np.sort(apart[:, members], axis=1)
    client, others = np.arange(len(members)), members.sum() - members
    middles = ordered[client, (others - 1) // 2], ordered[client, others // 2]
    median: NDArray[np.float64] = (middles[0] + middles[1]) / 2
    return np.where(others > 0, median, np.nan)
