"""A budget that is shared without making rivals of those who score each other.

When rewards are shares of one pot, a client gains by hurting the others, whose scores its report
enters as a peer. Here the round's clients are split at random into two groups; each is scored only
against peers of the other group, and each group shares a pot of its own. A report then moves no
score inside its own pot: all it can do for its sender is raise the sender's own score, and the
budget is still spent to the last unit.

What this needs: a pairwise score that depends on the two reports alone (``exact``, ``pca``,
``conditional``), and an `excluded` that does not depend on reports of the same group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedmerit.errors import InvalidInputError, UnknownNameError
from fedmerit.incentive.money import check_clients, split
from fedmerit.incentive.rewards import FeePlusBonus, Payments, Pot
from fedmerit.rng import RandomSource, as_generator

COMBINERS: dict[str, Callable[..., NDArray[np.float64]]] = {
    "mean": np.nanmean,
    "median": np.nanmedian,
}


@dataclass(frozen=True)
class CrossGroupPayments:
    """Payments of both groups, and how they came about.

    Attributes
    ----------
    groups : (k,) int
        Group of each client, 0 or 1.
    scores : (k,) float
        Score of each client against the peers of the other group.
    pots : tuple of two int
        What each group shares: the budget by the number of clients in the group.
    payments : Payments
        Amounts of all clients, and what both pots together did not spend.
    """

    groups: NDArray[np.int64]
    scores: NDArray[np.float64]
    pots: tuple[int, int]
    payments: Payments


def assign_groups(clients: Sequence[str], rng: RandomSource = None) -> NDArray[np.int64]:
    """Split clients at random into two groups whose sizes differ by at most one.

    The split depends on the ids and the random source, not on the order of the clients. Draw it
    after the reports are in: who knows its group early can arrange its peers.
    """
    ids = check_clients(clients, len(clients))
    if len(ids) < 2:
        raise InvalidInputError(f"two groups need at least 2 clients, got {len(ids)}")
    by_id = sorted(range(len(ids)), key=ids.__getitem__)
    groups = np.empty(len(ids), dtype=np.int64)
    groups[by_id] = as_generator(rng).permutation(len(ids)) % 2
    return groups


def cross_group_scores(
    pairwise: ArrayLike, groups: ArrayLike, combine: str = "mean"
) -> NDArray[np.float64]:
    """Score each client by its pairs with the other group only.

    Parameters
    ----------
    pairwise : (k, k) float
        Score of each pair, NaN where the two were not compared; what a scorer returns.
    groups : (k,) int
        Group of each client.
    combine : {"mean", "median"}
        How the pairs of a client become its score. The median resists a minority of colluders.
    """
    if combine not in COMBINERS:
        raise UnknownNameError.of("combine", combine, COMBINERS)
    matrix = np.array(pairwise, dtype=np.float64)
    sides = np.asarray(groups)
    if matrix.shape != (sides.size, sides.size):
        raise InvalidInputError(
            f"pairwise must have one row and column per client, {sides.size}, got {matrix.shape}"
        )
    matrix[sides[:, None] == sides[None, :]] = np.nan
    alone = np.isnan(matrix).all(axis=1)
    if alone.any():
        raise InvalidInputError(
            "every client must be compared with one of the other group, "
            f"got none for client {int(np.argmax(alone))}"
        )
    return COMBINERS[combine](matrix, axis=1)


def pay_cross_group(
    rule: Pot,
    pairwise: ArrayLike,
    clients: Sequence[str],
    excluded: ArrayLike | None = None,
    *,
    combine: str = "mean",
    rng: RandomSource = None,
) -> CrossGroupPayments:
    """Pay a round from two pots, each shared by one group and scored by the other.

    The budget of `rule` is divided by the size of the groups, excluded clients counted, so that no
    report can move money from one pot to the other.
    """
    ids = check_clients(clients, len(clients))
    groups = assign_groups(ids, rng)
    scores = cross_group_scores(pairwise, groups, combine)
    out = np.zeros(len(ids), dtype=np.bool_) if excluded is None else np.asarray(excluded)
    if out.shape != scores.shape:
        raise InvalidInputError(
            f"excluded must be one bool per client, shape {scores.shape}, got shape {out.shape}"
        )
    sizes = np.bincount(groups, minlength=2).tolist()
    pots = split(rule.budget, sizes, ["0", "1"])
    amounts = np.zeros(len(ids), dtype=object)
    unspent = 0
    for group, pot in enumerate(pots):
        members = np.flatnonzero(groups == group)
        excluded_here = int(out[members].sum())
        part = _part(rule, pot, len(members) - excluded_here, excluded_here)
        if part is None:
            unspent += pot
            continue
        paid = part.pay(scores[members], [ids[index] for index in members], out[members])
        amounts[members] = paid.amounts
        unspent += paid.unspent
    return CrossGroupPayments(
        groups, scores, (pots[0], pots[1]), Payments(ids, tuple(amounts.tolist()), unspent)
    )


def _part(rule: Pot, pot: int, eligible: int, excluded: int) -> Pot | None:
    """Return the rule for one of the pots, as far as that goes; None if it reaches no payment."""
    fee = rule.fee if isinstance(rule, FeePlusBonus) else 0
    if rule.minimum > fee + pot:
        return None
    floor = min(rule.floor, fee + pot // max(eligible, 1))
    floor = floor if floor >= rule.minimum else 0
    lowered = replace(rule, budget=pot, floor=floor, excluded_pay=min(rule.excluded_pay, fee + pot))
    return lowered.within(eligible, excluded)
