"""From what a scorer says about a round to what everybody in it is paid."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

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
    sizes: Sequence[float | None] | None = None,
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
        round earns nothing. A part below the rule's minimum is not sent.
    worked : mapping from client to int, optional
        In how many earlier rounds each client worked and was not flagged; 0 where it is missing.
    sizes : sequence of float or None, optional
        The data sizes that clients claim, for rules that count them.
    """
    refused = len(rejected)
    values = paid_for(rule, contributions, sizes)
    eligible, flagged = contributions.eligible, contributions.flagged
    affordable = rule.within(int(eligible.sum()), int((~eligible).sum()) + refused)
    paid = affordable.pay(
        np.concatenate([values, np.zeros(refused)]),
        [*clients, *rejected],
        np.concatenate([~eligible, np.ones(refused, dtype=np.bool_)]),
        last=np.concatenate([flagged, np.ones(refused, dtype=np.bool_)]),
    )
    return vested(paid, vesting, worked or {}, rule.minimum) if vesting else paid


def paid_for(
    rule: RewardRule, contributions: Contributions, sizes: Sequence[float | None] | None = None
) -> NDArray[np.float64]:
    """Return what a rule pays for, (k,): the column that it names, times claimed sizes if asked."""
    values = contributions.scores
    if rule.column == "worked":
        evidence = contributions.evidence
        accounts = np.ones(len(values)) if evidence is None else evidence.copies
        values = np.where(values > 0, 1 / accounts, 0.0)
    known = [size for size in sizes or () if size]
    if rule.size_cap and sizes is not None and known:
        usual = float(np.median(known))
        claimed = np.array([usual if size is None else size for size in sizes])
        values = values * np.minimum(claimed / usual, rule.size_cap)
    return values


def vested(paid: Payments, vesting: int, worked: Mapping[str, int], minimum: int = 0) -> Payments:
    """Return what is left of payments for clients that worked fewer rounds than `vesting`."""
    parts = (
        amount * min(worked.get(client, 0), vesting) // vesting
        for client, amount in zip(paid.clients, paid.amounts, strict=True)
    )
    amounts = tuple(part if part >= minimum else 0 for part in parts)
    return Payments(paid.clients, amounts, paid.unspent + paid.total - sum(amounts))
