"""Agreement of pairs over groups of parameters: what exact and conditional PCA share."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.kernels.agreement import (
    AGREEMENT,
    CERTIFICATE,
    CHANCE,
    OUTPUTS,
    VARIANCE,
    score_pairs,
)
from fedmerit.scorers.pairs import joint_counts, mean_over_peers, pair_matrix
from fedmerit.types import Signals


@dataclass(frozen=True)
class PairScores:
    """Matrices (k, k) over ordered pairs, NaN where not compared, and the certificate (k,)."""

    pairwise: NDArray[np.float64]
    agreement: NDArray[np.float64]
    chance: NDArray[np.float64]
    z: NDArray[np.float64]
    epsilon: NDArray[np.float64]


def score_groups(
    signals: Signals,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    ordered: NDArray[np.int64],
) -> PairScores:
    """Score the `ordered` pairs over groups that are, two by two, the halves of a stratum."""
    clients = signals.values.shape[0]
    pairs, where = np.unique(np.sort(ordered, axis=1), axis=0, return_inverse=True)
    results = np.empty((len(pairs), OUTPUTS))
    for block, counts in joint_counts(signals, order, starts, pairs):
        score_pairs(counts, results[block])
    score = results[:, AGREEMENT] - results[:, CHANCE]
    deviation = np.sqrt(results[:, VARIANCE])
    # No spread under independence (a constant report, say) is no evidence either way.
    z = np.divide(score, deviation, out=np.zeros_like(score), where=deviation > 0)

    def matrix(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return pair_matrix(clients, ordered, values[where.reshape(-1)])

    return PairScores(
        pairwise=matrix(score),
        agreement=matrix(results[:, AGREEMENT]),
        chance=matrix(results[:, CHANCE]),
        z=matrix(z),
        epsilon=mean_over_peers(matrix(results[:, CERTIFICATE])),
    )
