"""How well scores tell clicks from the rest."""

import numpy as np
from numpy.typing import NDArray


def auc(scores: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    """Area under the ROC curve: how often a click scores above another event, ties half.

    0.5, which is what no information gives, where a score is not a number or a label is missing.

    Examples
    --------
    >>> auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1]))
    0.875
    """
    positives = int((labels == 1).sum())
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0 or not np.isfinite(scores).all():
        return 0.5
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks = (last - (count - 1) / 2)[place]
    above = ranks[labels == 1].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def log_loss(logits: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    """Return the mean binary cross entropy; NaN for a model that has diverged."""
    if not np.isfinite(logits).all():
        return float("nan")
    signed = np.where(labels == 1, -logits, logits).astype(np.float64)
    return float(np.logaddexp(0.0, signed).mean())
