"""From pairwise z to p-values of clients, and from those to decisions with a stated error rate."""

from math import ceil, erfc, sqrt

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
    z: NDArray[np.float64], share: float = AGREEING_SHARE
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return, per client, the z that the best `share` of its peers reach, and its p-value.

    Of n peers, the r-th largest z is taken with r = ceil(share n), and its p-value is n / r times
    that of a single pair (at most 1). That holds whatever the dependence between the pairs: if the
    r-th largest exceeds t then at least r of n exceed t, and by Markov's inequality the chance of
    that is at most n / r times the chance of one (Rueger, Metrika 25, 1978). r = 1 is Bonferroni.
    """
    clients = z.shape[0]
    reached, p_values = np.empty(clients), np.empty(clients)
    for client in range(clients):
        values = np.sort(z[client][~np.isnan(z[client])])[::-1]
        r = max(ceil(share * len(values)), 1)
        reached[client] = values[r - 1]
        p_values[client] = min(1.0, len(values) / r * upper_tail(values[r - 1 : r])[0])
    return reached, p_values


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
