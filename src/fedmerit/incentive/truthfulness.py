"""How much a client could gain by re-labelling its signals, computed from the round itself.

Write X(a, b) = n c(a, b) - c(a) c(b) for the counts c of a half with n parameters, so that
Delta = X / n^2. A client that reports level r wherever it saw one of the levels a in a set G turns
its rows of X into their sum over G. Two things follow:

- what counts is which levels are merged, not which names they get: a permutation gains nothing;
- rows of a sum can only cancel, so the score of no re-labelling exceeds the *ceiling*
  ``n / (n - 1) * sum(max(Delta, 0))``, whatever signs the other half then shows.

The ceiling less the score of the truth is the certificate, epsilon. With strata (conditional score)
the same holds for lies that also depend on the stratum. It does not cover reports that depend on
anything else the client knows about its peers' signals.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedmerit.validation import check_count, check_levels, check_number

Counts = NDArray[np.int64]


def joint_counts(
    own: NDArray[np.integer],
    peers: NDArray[np.integer],
    halves: NDArray[np.integer],
    levels: int,
    strata: NDArray[np.integer] | None = None,
) -> Counts:
    """Count how often a client and each peer report levels (a, b) on the same parameter.

    Parameters
    ----------
    own : (d,) int
        Signals of the client.
    peers : (m, d) int
        Signals of its peers.
    halves : (d,) int
        Which random half, 0 or 1, each parameter is in.
    levels : int
        Number of levels.
    strata : (d,) int, optional
        Public class of each parameter; by default all are in one.

    Returns
    -------
    (m, strata, 2, levels, levels) int64
    """
    cells = np.asarray(halves, dtype=np.int64)
    classes = 1
    if strata is not None:
        classes = int(strata.max()) + 1
        cells = cells + 2 * strata.astype(np.int64)
    cells = (cells * levels + own) * levels
    size = classes * 2 * levels * levels
    counts = np.stack([np.bincount(cells + row, minlength=size) for row in peers])
    return counts.reshape(len(peers), classes, 2, levels, levels).astype(np.int64)


def surplus(counts: Counts) -> Counts:
    """Return X(a, b) = n c(a, b) - c(a) c(b) of each half; exact, in whole numbers."""
    sizes = counts.sum(axis=(-2, -1), keepdims=True)
    rows = counts.sum(axis=-1, keepdims=True)
    columns = counts.sum(axis=-2, keepdims=True)
    result: Counts = sizes * counts - rows * columns
    return result


def half_weights(counts: Counts) -> NDArray[np.float64]:
    """Return what one unit of X in a half adds to the score, (m, strata, 2).

    A half of n out of d parameters counts n / d, and its sum of Delta n / (n - 1), which makes the
    penalty one over different parameters; together X is multiplied by 1 / (d (n - 1)).
    """
    sizes = counts.sum(axis=(-2, -1)).astype(np.float64)
    totals = sizes.sum(axis=(-2, -1), keepdims=True)
    return np.where(sizes >= 2, 1.0 / (totals * np.maximum(sizes - 1, 1)), 0.0)


def scores(counts: Counts) -> NDArray[np.float64]:
    """Exact score of each pair, (m,): every half scored with the signs that the other one shows."""
    excess = surplus(counts)
    agreeing = np.where(excess[:, :, ::-1] > 0, excess, 0).sum(axis=(-2, -1))
    result: NDArray[np.float64] = (half_weights(counts) * agreeing).sum(axis=(1, 2))
    return result


def ceilings(counts: Counts) -> NDArray[np.float64]:
    """Return the most any re-labelling of the client's signals could score with each peer, (m,)."""
    positive = np.maximum(surplus(counts), 0).sum(axis=(-2, -1))
    result: NDArray[np.float64] = (half_weights(counts) * positive).sum(axis=(1, 2))
    return result


def certificate(counts: Counts) -> float:
    """Truthfulness certificate of a client: mean over peers of the ceiling less the score."""
    return float(np.mean(ceilings(counts) - scores(counts)))


def theorem_epsilon(levels: int, parameters: int, delta: float = 0.05) -> float:
    """Return epsilon of the paper's Theorem 1, with the constant in its O() taken as one.

    From g = 9 h^2 log(1 / delta) / epsilon^2 samples, solved for epsilon at g = `parameters`.
    """
    check_levels(levels)
    check_count("parameters", parameters, least=1)
    check_number("delta", delta, above=0, below=1)
    return math.sqrt(9 * levels**2 * math.log(1 / delta) / parameters)
