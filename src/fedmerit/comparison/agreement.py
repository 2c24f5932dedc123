"""Agreement of pairs over groups of parameters: what exact and conditional PCA share."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.comparison.pairs import fits_a_matrix, joint_counts, pair_matrix
from fedmerit.kernels.agreement import (
    AGREEMENT,
    CERTIFICATE,
    CHANCE,
    OUTPUTS,
    VARIANCE,
    score_pairs,
)
from fedmerit.types import Pairs, Signals


@dataclass(frozen=True)
class PairScores:
    """Scores of ordered pairs (n, 2) of clients, with what they are made of, (n,) each."""

    clients: int
    ordered: NDArray[np.int64]
    score: NDArray[np.float64]
    agreement: NDArray[np.float64]
    chance: NDArray[np.float64]
    z: NDArray[np.float64]
    certificate: NDArray[np.float64]

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Average the values of each client over its peers, (k,)."""
        client = self.ordered[:, 0]
        total = np.bincount(client, values, minlength=self.clients)
        means: NDArray[np.float64] = total / np.bincount(client, minlength=self.clients)
        return means

    def matrices(self) -> Pairs | None:
        """Put everything into (k, k) matrices, NaN where not compared; None if too large."""
        if not fits_a_matrix(self.clients, len(self.ordered)):
            return None
        columns = (self.score, self.agreement, self.chance, self.z)
        return Pairs(*(pair_matrix(self.clients, self.ordered, column) for column in columns))


def score_groups(
    signals: Signals,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    ordered: NDArray[np.int64],
) -> PairScores:
    """Score the `ordered` pairs over groups that are, two by two, the halves of a stratum."""
    clients = signals.values.shape[0]
    low, high = ordered.min(axis=1), ordered.max(axis=1)
    code, where = np.unique(low * clients + high, return_inverse=True)
    results = _score_blocks(signals, order, starts, np.column_stack(divmod(code, clients)))
    score = results[:, AGREEMENT] - results[:, CHANCE]
    deviation = np.sqrt(results[:, VARIANCE])
    # No spread under independence (a constant report, say) is no evidence either way.
    z = np.divide(score, deviation, out=np.zeros_like(score), where=deviation > 0)
    return PairScores(
        clients=clients,
        ordered=ordered,
        score=score[where],
        agreement=results[where, AGREEMENT],
        chance=results[where, CHANCE],
        z=z[where],
        certificate=results[where, CERTIFICATE],
    )


def _score_blocks(
    signals: Signals,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    pairs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the results of the pairs, (n, OUTPUTS); their counts are gone when it returns."""
    results = np.empty((len(pairs), OUTPUTS))
    for block, counts in joint_counts(signals, order, starts, pairs):
        part = np.empty((len(block), OUTPUTS))
        score_pairs(counts, part)
        results[block] = part
    return results
