"""From what a scorer says about a round to what everybody in it is paid."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedmerit.incentive.rewards import Payments, RewardRule
from fedmerit.types import Contributions


def pay_round(
    rule: RewardRule,
    contributions: Contributions,
    clients: Sequence[str],
    rejected: Sequence[str] = (),
    *,
    vesting: int = 0,
    worked: Mapping[str, int] | None = None,
) -> Payments:
    """Pay the scored clients of a round and, behind them, those whose reply was rejected.

    A client without evidence of work and a rejected one get the rule's `excluded_pay`. A near-copy
    is flagged but paid: it shares one score with its twin, and to pay neither would let anybody
    ruin a client by copying it. Where a budget does not cover what the rule promises to so many
    clients, it is met as far as the budget goes.

    Parameters
    ----------
    vesting : int
        Rounds of work after which a client is paid in full. Before, it gets as many parts of
        `vesting` as it has worked rounds, and the rest stays unspent: a new account for every
        round earns nothing.
    worked : mapping from client to int, optional
        In how many earlier rounds each client worked and was not flagged; 0 where it is missing.
    """
    refused = len(rejected)
    eligible = contributions.eligible
    affordable = rule.within(int(eligible.sum()), int((~eligible).sum()) + refused)
    paid = affordable.pay(
        np.concatenate([contributions.scores, np.zeros(refused)]),
        [*clients, *rejected],
        np.concatenate([~eligible, np.ones(refused, dtype=np.bool_)]),
        last=np.concatenate([contributions.flagged, np.ones(refused, dtype=np.bool_)]),
    )
    return vested(paid, vesting, worked or {}) if vesting else paid


def vested(paid: Payments, vesting: int, worked: Mapping[str, int]) -> Payments:
    """Return what is left of payments for clients that worked fewer rounds than `vesting`."""
    amounts = tuple(
        amount * min(worked.get(client, 0), vesting) // vesting
        for client, amount in zip(paid.clients, paid.amounts, strict=True)
    )
    return Payments(paid.clients, amounts, paid.unspent + paid.total - sum(amounts))
