"""Krum's measure of being among others, as a score.

Blanchard, El Mhamdi, Guerraoui and Stainer, "Machine learning with adversaries: Byzantine tolerant
gradient descent" (NeurIPS 2017). The rule itself, which keeps one update, is an aggregator.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedmerit.comparison import float_updates
from fedmerit.kernels.combine import squared_distances
from fedmerit.types import Contributions, Needs, Pairs, RoundInputs
from fedmerit.validation import check_count


@dataclass(frozen=True)
class KrumScore:
    """Score = minus the sum of squared distances to the nearest k - byzantine - 2 other updates.

    Parameters
    ----------
    byzantine
        How many clients may be hostile; ``None`` for the most that Krum's guarantee allows. At
        least one neighbour is always looked at, so that rounds of two can be scored.
    """

    needs: ClassVar[Needs] = Needs(floats=True)

    byzantine: int | None = None

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; draws nothing."""
        del rng
        updates, clients = float_updates(inputs, "krum"), inputs.clients
        hostile = max((clients - 3) // 2, 0)
        if self.byzantine is not None:
            hostile = check_count("byzantine", self.byzantine, least=0, most=max(clients - 3, 0))
        upper = np.triu_indices(clients, 1)
        squared = np.empty(len(upper[0]))
        squared_distances(updates, np.column_stack(upper).astype(np.int64), squared)
        matrix = np.full((clients, clients), np.nan)
        matrix[upper] = matrix[upper[::-1]] = squared
        nearest = np.sort(matrix, axis=1)[:, : max(clients - hostile - 2, 1)]  # NaN sorts last
        return Contributions.of("krum", -nearest.sum(axis=1), pairs=Pairs(-matrix))
