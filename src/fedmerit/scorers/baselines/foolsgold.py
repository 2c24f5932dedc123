"""FoolsGold: who is too similar to somebody else is taken for a Sybil.

Fung, Yoon and Beschastnikh, "The limitations of federated learning in Sybil settings" (RAID 2020).
The original compares sums of each client's updates over all rounds; this is its form for one round.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedmerit.comparison import cosines, float_updates, gram, off_diagonal
from fedmerit.types import Contributions, Needs, Pairs, RoundInputs
from fedmerit.validation import check_number

# The most unusual client's share, instead of 1, whose logit is infinite; as in the authors' code.
_TOP = 0.99
# Cosines this close to 1 differ from it by rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class FoolsGold:
    """Score = the client's learning rate under FoolsGold, 0 (a Sybil) to 1 (like nobody else).

    Parameters
    ----------
    confidence
        Factor on the logit (kappa in the paper): larger decides harder.
    """

    needs: ClassVar[Needs] = Needs(floats=True)

    confidence: float = 1.0

    def __post_init__(self) -> None:
        check_number("confidence", self.confidence, above=0)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; draws nothing."""
        del rng
        similar = off_diagonal(cosines(gram(float_updates(inputs, "foolsgold"))))
        closest = np.nanmax(similar, axis=1)
        # Pardoning: an honest client that resembles a Sybil is not to blame for it.
        ahead = (closest[None, :] > closest[:, None]) & (closest[None, :] > 0)
        ratio = np.divide(
            closest[:, None], closest[None, :], out=np.ones_like(similar), where=ahead
        )
        unlike = np.clip(1 - np.nanmax(similar * ratio, axis=1), 0.0, 1.0)
        top = unlike.max()
        share = np.minimum(unlike / top, _TOP) if top > _ROUNDING else np.zeros_like(unlike)
        least = np.finfo(np.float64).tiny
        logit = np.log(np.maximum(share, least) / (1 - share)) + 0.5
        scores = np.clip(self.confidence * logit, 0.0, 1.0)
        return Contributions.of("foolsgold", scores, pairs=Pairs(similar))
