"""PCA as published: Algorithms 1 and 2 with sampled bonus and penalty parameters."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedmerit.comparison import (
    check_enough_parameters,
    choose_peers,
    mean_over_peers,
    pair_matrix,
)
from fedmerit.errors import SettingError, UpdatesError
from fedmerit.kernels.agreement import sample_agreement
from fedmerit.quantisers import QuantileBins, to_signals
from fedmerit.rng import seeds
from fedmerit.types import Contributions, Pairs, Quantiser, RoundInputs
from fedmerit.validation import check_count

PAPER_PEERS = 5
PAPER_BONUS = 1000
_FEWEST_PENALTIES = 2


@dataclass(frozen=True)
class PublishedPCA:
    """Pairwise correlated agreement exactly as in Algorithm 2 of the paper.

    Per round one random split of the parameters into bonus and penalty parameters (M1, M2); per
    client `peers` random peers; per pair fresh halves A and B of equal size (to within one); each
    bonus parameter is scored with the signs of the other half, against two different penalty
    parameters of its own half.

    Parameters
    ----------
    quantiser
        How float updates become signals. The paper's experiments use `CpSGD`.
    peers
        Peers per client (m); ``None`` for the paper's 5, or all where there are fewer.
    bonus
        Bonus parameters (M1 in the paper); ``None`` for the paper's 1000, or as many as d allows.
    """

    quantiser: Quantiser = field(default_factory=QuantileBins)
    peers: int | None = None
    bonus: int | None = None

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs."""
        peers = min(PAPER_PEERS, inputs.clients - 1) if self.peers is None else self.peers
        bonus_count = check_bonus(self.bonus, inputs.parameters)
        ordered = choose_peers(inputs.clients, peers, rng)
        signals = to_signals(inputs.updates, self.quantiser, rng)
        check_enough_parameters(signals)

        bonus = rng.choice(inputs.parameters, size=bonus_count, replace=False, shuffle=False)
        hits = np.zeros((len(ordered), 2), dtype=np.int64)
        sample_agreement(
            signals.values,
            signals.levels,
            bonus.astype(np.int64),
            pack_bits(bonus, inputs.parameters),
            ordered,
            seeds(rng, len(ordered)),
            hits,
        )

        rates = hits / bonus_count
        pairwise = pair_matrix(inputs.clients, ordered, rates[:, 0] - rates[:, 1])
        return Contributions.of(
            "pca",
            mean_over_peers(pairwise),
            pairs=Pairs(
                pairwise,
                pair_matrix(inputs.clients, ordered, rates[:, 0]),
                pair_matrix(inputs.clients, ordered, rates[:, 1]),
            ),
        )


def check_bonus(bonus: int | None, parameters: int) -> int:
    """Check the number of bonus parameters: both halves must keep two penalty parameters.

    In the worst draw every bonus parameter lies in the smaller half, hence at most
    ``parameters // 2 - 2``.
    """
    most = parameters // 2 - _FEWEST_PENALTIES
    if most < 1:
        raise UpdatesError(f"updates must have at least 6 parameters, got {parameters}")
    if bonus is None:
        return min(PAPER_BONUS, most)
    count = check_count("bonus", bonus, least=1)
    if count > most:
        raise SettingError(
            f"bonus must be at most parameters // 2 - {_FEWEST_PENALTIES} = {most}, got {count}"
        )
    return count


def pack_bits(positions: NDArray[np.integer], length: int) -> NDArray[np.uint64]:
    """Return a bit stream of `length` bits in which those at `positions` are set."""
    flags = np.zeros((length + 63) // 64 * 64, dtype=np.bool_)
    flags[positions] = True
    return np.packbits(flags, bitorder="little").view("<u8").astype(np.uint64)
