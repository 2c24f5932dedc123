"""From what a scorer says about a round to what everybody in it is paid."""

from collections.abc import Sequence

import numpy as np

from fedmerit.incentive.rewards import Payments, RewardRule
from fedmerit.types import Contributions


def pay_round(
    rule: RewardRule,
    contributions: Contributions,
    clients: Sequence[str],
    rejected: Sequence[str] = (),
) -> Payments:
    """Pay the scored clients of a round and, behind them, those whose reply was rejected.

    A client without evidence of work and a rejected one get the rule's `excluded_pay`. A near-copy
    is flagged but paid: it shares one score with its twin, and to pay neither would let anybody
    ruin a client by copying it.
    """
    refused = len(rejected)
    return rule.pay(
        np.concatenate([contributions.scores, np.zeros(refused)]),
        [*clients, *rejected],
        np.concatenate([~contributions.eligible, np.ones(refused, dtype=np.bool_)]),
    )
