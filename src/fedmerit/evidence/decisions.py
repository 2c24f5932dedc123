"""From pairwise z to p-values of clients, and from those to decisions with a stated error rate."""

from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

# Share of its peers that must agree with a client. Small enough that honest clients pass when most
# of the others are free riders; two clients who share a secret do not pass among ten.
AGREEING_SHARE = 0.2


def upper_tail(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability that a standard normal exceeds z."""
    tail: NDArray[np.float64] = np.vectorize(lambda x: 0.5 * erfc(x / sqrt(2)), otypes=[float])(z)
    return tail


def agreeing_z(
    clients: int,
    ordered: NDArray[np.int64],
    z: NDArray[np.float64],
    share: float = AGREEING_SHARE,
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
