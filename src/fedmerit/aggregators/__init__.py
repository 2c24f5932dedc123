"""Aggregators: from the updates and weights of a round to the global update."""

import inspect
from collections.abc import Callable

from numpy.typing import ArrayLike

from fedmerit.aggregators import rules
from fedmerit.errors import SettingError, UnknownNameError, WeightsError
from fedmerit.types import FloatArray
from fedmerit.validation import check_matrix, check_number, check_weights

__all__ = ["AGGREGATORS", "aggregate"]

AGGREGATORS: dict[str, Callable[..., FloatArray]] = {
    "geometric-median": rules.geometric_median,
    "krum": rules.krum,
    "mean": rules.mean,
    "median": rules.median,
    "multi-krum": rules.multi_krum,
    "trimmed-mean": rules.trimmed,
}

# No honest update of federations with equal amounts of data was longer than so many median norms,
# and three of ten clients at this length could not shake a mean (docs/decisions/0009).
NORM_BOUND = 1.5


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
        mean by it.

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
        bound = check_number("norm_bound", norm_bound, above=0)
        matrix = rules.bound_norms(matrix, bound, shares)
    if shares is None:
        return combine(matrix, **settings)
    return combine(matrix, weights=shares, **settings)
