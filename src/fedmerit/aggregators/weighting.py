"""From scores to aggregation weights."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedmerit.types import Contributions
from fedmerit.validation import check_number, check_vector

# How strongly weights follow scores where nothing else is asked for; the paper's for MNIST.
ALPHA = 10.0
# Scores beyond this would overflow when multiplied or subtracted; softmax is 0 or 1 long before.
_LARGEST_EXPONENT = 1e300


def weights(scores: ArrayLike, alpha: float = ALPHA) -> NDArray[np.float64]:
    """Return softmax weights, ``exp(alpha Q_i) / sum_j exp(alpha Q_j)`` (Algorithm 3).

    Parameters
    ----------
    scores : (k,) array
        One score per client.
    alpha : float
        How strongly the weights follow the scores; 0 gives equal weights.

    Returns
    -------
    (k,) array
        Non-negative, sums to one.

    Examples
    --------
    >>> weights([0.2, 0.2, 0.0], alpha=10).round(3).tolist()
    [0.468, 0.468, 0.063]
    """
    factor = check_number("alpha", alpha, least=0)
    limit = _LARGEST_EXPONENT / max(factor, 1.0)
    exponent = factor * np.clip(check_vector(scores, name="scores"), -limit, limit)
    unscaled = np.exp(exponent - exponent.max())  # the largest becomes 1: nothing overflows
    result: NDArray[np.float64] = unscaled / unscaled.sum()
    return result


def gated_weights(result: Contributions, alpha: float = ALPHA) -> NDArray[np.float64]:
    """Return softmax weights times the squared evidence; without evidence a client gets exactly 0.

    Evidence is how far a client agrees with the cohort relative to what is typical there: a client
    that drowns its update in noise keeps some, and is weighed by the square of it. Near-copies
    share one weight. In a round in which nobody is eligible there is nothing to choose by, and all
    weights are equal.
    """
    soft = weights(result.scores, alpha)
    if result.evidence is not None:
        soft = soft / result.evidence.copies * result.evidence.relative**2
    gated = np.where(result.eligible, soft, 0.0)
    total = gated.sum()
    if total == 0.0:
        return np.full(len(soft), 1 / len(soft))
    scaled: NDArray[np.float64] = gated / total
    return scaled
