"""Earlier reports by where the model goes later, after CoAst.

Wu, Zhang, Li, Xu and Zhong, "CoAst: validation-free contribution assessment for federated learning
based on cross-round valuation" (ACM Multimedia 2024): of a report only the largest parameters of
each layer count, and only their signs; it is worth as much as it points where the global updates of
the next rounds go. Here a round pays for earlier reports: the similarity is the cosine with this
round's mean update, and a client without a past is valued by its report of now. What is large
follows ternary weight networks (Li and Liu, 2016): more than 0.7 times the mean of the layer.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedmerit.comparison import float_updates
from fedmerit.types import Contributions, FloatArray, Needs, RoundInputs

_LARGE = 0.7
_TINY = 1e-300


@dataclass(frozen=True)
class CrossRound:
    """Score = mean cosine of a client's earlier reports, as signs, with the mean update of now."""

    needs: ClassVar[Needs] = Needs(floats=True, previous=True)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; draws nothing."""
        del rng
        reports = float_updates(inputs, "coast")
        mean = reports.mean(axis=0, dtype=np.float64)
        layers = np.zeros(reports.shape[1], dtype=np.int64)
        if inputs.layers is not None:
            layers = np.unique(inputs.layers, return_inverse=True)[1]
        scores = np.zeros(inputs.clients)
        for client, report in enumerate(reports):
            past = [] if inputs.previous is None else inputs.previous[client]
            known = [earlier for earlier in past if earlier.any()] or [report]
            scores[client] = np.mean([_cosine(_signs(one, layers), mean) for one in known])
        return Contributions.of("coast", scores)


def _signs(report: FloatArray, layers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the signs of what is large for its layer, and 0 of the rest."""
    sizes = np.abs(report.astype(np.float64))
    usual = np.bincount(layers, sizes) / np.maximum(np.bincount(layers), 1)
    return np.where(sizes > _LARGE * usual[layers], np.sign(report), 0.0)


def _cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / lengths if lengths > _TINY else 0.0
