"""Exact PCA: the expectation of Algorithm 2 over its dice, from the tables it needs anyway.

Averaged over the bonus set and the penalty draws, a half A judged by the signs of B scores
``n / (n - 1) * sum(Delta_A * Sign(Delta_B))`` with n = |A|: every parameter acts as bonus
parameter, and the score of a pair is the same for both of its clients.
"""

from dataclasses import dataclass, field

import numpy as np

from fedmerit.comparison import (
    check_enough_parameters,
    plan_comparisons,
    score_groups,
)
from fedmerit.quantisers import QuantileBins, to_signals
from fedmerit.sampling import halves_of_strata
from fedmerit.types import Contributions, Quantiser, RoundInputs


@dataclass(frozen=True)
class ExactPCA:
    """Pairwise correlated agreement in expectation; scores lie in [-1, 1].

    One random split of the parameters into halves serves all pairs of a round, so that permuting
    the clients permutes the scores and nothing else.

    Parameters
    ----------
    quantiser
        How float updates become signals.
    peers
        How many peers each client is compared with, by a random plan that keeps all connected;
        ``None`` for all of them.
    """

    quantiser: Quantiser = field(default_factory=QuantileBins)
    peers: int | None = None

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs."""
        signals = to_signals(inputs.updates, self.quantiser, rng)
        check_enough_parameters(signals)
        ordered = plan_comparisons(inputs.clients, self.peers, rng)
        order, starts = halves_of_strata(np.array([0, inputs.parameters]), rng)
        pairs = score_groups(signals, order, starts, ordered)
        return Contributions.of(
            "exact",
            pairs.mean(pairs.score),
            epsilon=pairs.mean(pairs.certificate),
            pairs=pairs.matrices(),
        )
