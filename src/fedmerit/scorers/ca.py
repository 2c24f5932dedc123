"""Correlated agreement for homogeneous users: one Delta for all pairs (paper, section II)."""

from dataclasses import dataclass, field

import numpy as np

from fedmerit.comparison import check_enough_parameters, joint_counts
from fedmerit.kernels.agreement import positive_delta
from fedmerit.quantisers import QuantileBins, to_signals
from fedmerit.scorers.published import check_bonus
from fedmerit.types import Contributions, Pairs, Quantiser, RoundInputs


@dataclass(frozen=True)
class CorrelatedAgreement:
    """The CA method: a peer drawn per bonus parameter, one score matrix for everybody.

    The paper takes Delta as known. Here it is estimated from all pairs of clients on the penalty
    parameters, so that no bonus parameter judges itself.

    Parameters
    ----------
    quantiser
        How float updates become signals.
    bonus
        Bonus parameters (M1 in the paper); ``None`` for the paper's 1000, or as many as d allows.
    """

    quantiser: Quantiser = field(default_factory=QuantileBins)
    bonus: int | None = None

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs."""
        k, d = inputs.clients, inputs.parameters
        bonus_count = check_bonus(self.bonus, d)
        signals = to_signals(inputs.updates, self.quantiser, rng)
        check_enough_parameters(signals)

        order = rng.permutation(d)
        bonus, penalty = order[:bonus_count], np.sort(order[bonus_count:])
        pairs = np.column_stack(np.triu_indices(k, 1)).astype(np.int64)
        pooled = np.zeros((signals.levels, signals.levels), dtype=np.int64)
        starts = np.array([0, len(penalty)], dtype=np.int64)
        for _, counts in joint_counts(signals, penalty, starts, pairs):
            pooled += counts.sum(axis=(0, 1), dtype=np.int64)
        signs = positive_delta(pooled + pooled.T)  # a pair has no order: count it both ways

        me = np.arange(k)[:, None]
        peer = rng.integers(0, k - 1, size=(k, bonus_count))
        peer += peer >= me
        q = rng.integers(0, len(penalty), size=peer.shape)
        q_peer = rng.integers(0, len(penalty) - 1, size=peer.shape)
        q_peer += q_peer >= q
        values = signals.values
        reward = signs[values[me, bonus], values[peer, bonus]]
        charge = signs[values[me, penalty[q]], values[peer, penalty[q_peer]]]

        shape, where = (k, k), (np.broadcast_to(me, peer.shape), peer)
        draws, rewards, charges = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        np.add.at(draws, where, 1)
        np.add.at(rewards, where, reward)
        np.add.at(charges, where, charge)
        draws[draws == 0] = np.nan
        return Contributions.of(
            "ca",
            reward.mean(axis=1) - charge.mean(axis=1),
            pairs=Pairs((rewards - charges) / draws, rewards / draws, charges / draws),
        )
