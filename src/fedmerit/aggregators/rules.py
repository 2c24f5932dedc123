"""Aggregation rules: from the updates of a round to the global update.

Every rule takes checked updates (k, d) and returns (d,) in their dtype. Rules that can use weights
take them already scaled to sum to one. `aggregate` checks, and finds a rule by its name.
"""

import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedmerit.errors import SettingError, UnknownNameError, WeightsError
from fedmerit.kernels.combine import (
    squared_distances,
    squared_distances_to,
    trimmed_mean,
    weighted_median,
    weighted_sum,
)
from fedmerit.types import FloatArray, freeze
from fedmerit.validation import check_count, check_matrix, check_number, check_weights

# Weights of the median become whole numbers out of 2^30: sums are exact, in any order.
_WEIGHT_UNITS = 2**30
_GEOMETRIC_STEPS = 100
_GEOMETRIC_TOLERANCE = 1e-8


def mean(updates: FloatArray, weights: NDArray[np.float64] | None = None) -> FloatArray:
    """Weighted mean; with data sizes as weights this is FedAvg, with PCA weights Fed-PCA."""
    clients = updates.shape[0]
    result = np.empty(updates.shape[1], dtype=updates.dtype)
    weighted_sum(updates, np.full(clients, 1 / clients) if weights is None else weights, result)
    return result


def mean_of(updates: Iterable[FloatArray], weights: NDArray[np.float64]) -> FloatArray:
    """Weighted mean of updates that come one at a time, with the bits of `mean`."""
    total: NDArray[np.float64] = np.zeros(0)
    kind: np.dtype[np.floating] = total.dtype
    for update, weight in zip(updates, weights, strict=True):
        if not total.size:
            total, kind = np.zeros(len(update)), update.dtype
        total += float(weight) * update.astype(np.float64)
    return total.astype(kind, copy=False)


def median(updates: FloatArray, weights: NDArray[np.float64] | None = None) -> FloatArray:
    """Coordinate-wise (weighted) median; with PCA weights this is Med-PCA.

    The middle of the points that leave at most half of the weight on either side. Weights below
    2^-31 of the total count as zero, and weights that balance to within 2^-29 per client balance.
    """
    if weights is None:
        return _trimmed(updates, (updates.shape[0] - 1) // 2)
    units = np.rint(weights * _WEIGHT_UNITS).astype(np.int32)
    present = np.flatnonzero(units)
    if len(present) < len(units):
        updates = np.ascontiguousarray(updates[present])
    result = np.empty(updates.shape[1], dtype=updates.dtype)
    weighted_median(
        updates, units[present], sorting_network(len(present)), 2 * len(present), result
    )
    return result


def trimmed(updates: FloatArray, *, trim: float = 0.1) -> FloatArray:
    """Mean of each coordinate without the share `trim` of its smallest and of its largest values.

    Yin et al., "Byzantine-robust distributed learning", ICML 2018.
    """
    share = check_number("trim", trim, least=0, below=0.5)
    return _trimmed(updates, int(share * updates.shape[0]))


def krum(updates: FloatArray, *, byzantine: int | None = None) -> FloatArray:
    """Return the update that is closest to its neighbours (Blanchard et al., NeurIPS 2017)."""
    chosen: FloatArray = updates[np.argmin(krum_distances(updates, byzantine))]
    return chosen.copy()


def multi_krum(
    updates: FloatArray, *, byzantine: int | None = None, keep: int | None = None
) -> FloatArray:
    """Mean of the `keep` updates with the smallest Krum distances (default: k - byzantine)."""
    clients = updates.shape[0]
    distances = krum_distances(updates, byzantine)
    if keep is None:
        keep = clients - (_default_byzantine(clients) if byzantine is None else byzantine)
    count = check_count("keep", keep, least=1, most=clients)
    chosen = np.sort(np.argsort(distances, kind="stable")[:count])
    weights = np.zeros(clients)
    weights[chosen] = 1 / count
    return mean(updates, weights)


def krum_distances(updates: FloatArray, byzantine: int | None = None) -> NDArray[np.float64]:
    """Sum of squared distances to the k - byzantine - 2 nearest other updates, per client."""
    clients = updates.shape[0]
    if clients < 3:
        raise SettingError(f"krum needs at least 3 clients, got {clients}")
    tolerated = _default_byzantine(clients) if byzantine is None else byzantine
    tolerated = check_count("byzantine", tolerated, least=0, most=clients - 3)
    pairs = np.column_stack(np.triu_indices(clients, 1)).astype(np.int64)
    squared = np.empty(len(pairs))
    squared_distances(updates, pairs, squared)
    matrix = np.full((clients, clients), np.inf)
    matrix[pairs[:, 0], pairs[:, 1]] = matrix[pairs[:, 1], pairs[:, 0]] = squared
    nearest = np.sort(matrix, axis=1)[:, : clients - tolerated - 2]
    total: NDArray[np.float64] = nearest.sum(axis=1)
    return total


def geometric_median(updates: FloatArray, weights: NDArray[np.float64] | None = None) -> FloatArray:
    """Point with the smallest weighted sum of distances to the updates, by Weiszfeld's iteration.

    Steps whose distance is tiny are smoothed (Pillutla et al., "Robust aggregation for federated
    learning", 2022); stops when the objective falls by less than 1e-8 of itself, or at 100 steps.
    """
    clients = updates.shape[0]
    shares = np.full(clients, 1 / clients) if weights is None else weights
    point = np.empty(updates.shape[1])
    weighted_sum(updates, shares, point)
    squared = np.empty(clients)
    objective = np.inf
    for _ in range(_GEOMETRIC_STEPS):
        squared_distances_to(updates, point, squared)
        distances = np.sqrt(squared)
        reached = float(shares @ distances)
        if reached == 0 or reached >= objective * (1 - _GEOMETRIC_TOLERANCE):
            break
        objective = reached
        pull = shares / np.maximum(distances, _GEOMETRIC_TOLERANCE * reached)
        weighted_sum(updates, pull / pull.sum(), point)
    return point.astype(updates.dtype)


def bound_norms(
    updates: FloatArray, bound: float, weights: NDArray[np.float64] | None = None
) -> FloatArray:
    """Shrink updates that are longer than `bound` median norms to that length.

    The median is over the updates that count: those with weight, and not zero. Otherwise a majority
    of empty reports would shrink everybody's to nothing.
    """
    squared = np.empty(updates.shape[0])
    squared_distances_to(updates, np.zeros(updates.shape[1]), squared)
    norms = np.sqrt(squared)
    counted = norms > 0 if weights is None else (norms > 0) & (weights > 0)
    if not counted.any():
        return updates
    limit = bound * float(np.median(norms[counted]))
    if norms.max() <= limit:
        return updates
    scales = limit / np.maximum(norms, limit)
    bounded: FloatArray = updates * scales[:, None].astype(updates.dtype)
    return bounded


def _trimmed(updates: FloatArray, trim: int) -> FloatArray:
    result = np.empty(updates.shape[1], dtype=updates.dtype)
    trimmed_mean(updates, sorting_network(updates.shape[0]), trim, result)
    return result


def _default_byzantine(clients: int) -> int:
    """Most that Krum's guarantee allows: 2 f + 2 < k."""
    return max((clients - 3) // 2, 0)


@lru_cache(maxsize=64)
def sorting_network(size: int) -> NDArray[np.int64]:
    """Return Batcher's merge-exchange network for `size` values, (steps, 2), low index first.

    Knuth, The Art of Computer Programming, volume 3, algorithm 5.2.2M: about n log2(n)^2 / 4
    steps, for any n.
    """
    steps: list[tuple[int, int]] = []
    top = 1 << max(size - 1, 1).bit_length() - 1
    p = top
    while p > 0:
        q, r, distance = top, 0, p
        while True:
            steps.extend((i, i + distance) for i in range(size - distance) if i & p == r)
            if q == p:
                break
            distance, q, r = q - p, q // 2, p
        p //= 2
    return freeze(np.array(steps, dtype=np.int64).reshape(-1, 2))


AGGREGATORS: dict[str, Callable[..., FloatArray]] = {
    "geometric-median": geometric_median,
    "krum": krum,
    "mean": mean,
    "median": median,
    "multi-krum": multi_krum,
    "trimmed-mean": trimmed,
}


def aggregate(
    updates: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    rule: str = "mean",
    norm_bound: float | None = None,
    **settings: object,
) -> FloatArray:
    """Combine the updates of a round into one.

    Parameters
    ----------
    updates : (k, d) float array
        One update per client.
    weights : (k,) array, optional
        Non-negative, not all zero; scaled to sum to one. Data sizes give FedAvg, `fedmerit.weights`
        gives Fed-PCA (``rule="mean"``) or Med-PCA (``rule="median"``). ``None``: all equal.
    rule : str
        ``"mean"``, ``"median"``, ``"geometric-median"``; and, without weights, ``"trimmed-mean"``
        (`trim`), ``"krum"`` (`byzantine`), ``"multi-krum"`` (`byzantine`, `keep`).
    norm_bound : float, optional
        Updates longer than this many median norms (of those with weight) are shrunk to that length
        first. Scores that look at order only do not see scale, and one client must not take over a
        mean by it. With equal amounts of data no honest update was longer than 1.5
        (docs/decisions/0009).

    Returns
    -------
    (d,) array
        In the dtype of the updates.

    Examples
    --------
    >>> aggregate([[1.0, 2.0], [3.0, 6.0]], weights=[3, 1]).tolist()
    [1.5, 3.0]
    """
    if rule not in AGGREGATORS:
        raise UnknownNameError.of("rule", rule, AGGREGATORS)
    combine = AGGREGATORS[rule]
    accepted = inspect.signature(combine).parameters
    unknown = sorted(set(settings) - set(accepted))
    if unknown:
        raise SettingError(f"rule {rule!r} does not take {', '.join(unknown)}")
    if weights is not None and "weights" not in accepted:
        raise WeightsError(f"rule {rule!r} does not use weights; leave them out")
    matrix = check_matrix(updates)
    shares = None if weights is None else check_weights(weights, matrix.shape[0])
    if norm_bound is not None:
        check_number("norm_bound", norm_bound, above=0)
    return combined(matrix, shares, rule, norm_bound, **settings)


def combined(
    updates: FloatArray,
    weights: NDArray[np.float64] | None,
    rule: str,
    norm_bound: float | None = None,
    **settings: object,
) -> FloatArray:
    """Combine updates that are checked, with weights that sum to one."""
    if norm_bound is not None:
        updates = bound_norms(updates, norm_bound, weights)
    if weights is None:
        return AGGREGATORS[rule](updates, **settings)
    return AGGREGATORS[rule](updates, weights=weights, **settings)
