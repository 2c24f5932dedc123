"""Reward rules: from the scores of a round to what each client is paid.

Three families. A *tariff* (:mod:`fedmerit.incentive.tariffs`) pays every client by its own score,
R = f(Q) with f increasing, whatever the others do: the total is open. A *pot* divides a fixed
budget: the total is certain, but a client also gains when its rivals lose, so pair it with
:mod:`fedmerit.incentive.cross_group`. A *wage* (beside the tariffs) is for a typical client of the
round, whichever round that is.

Every rule says in its settings what an excluded client (flagged, or its reply rejected) is paid: at
most what the least paid of the others gets. Settings that contradict each other are refused when
the rule is made; what depends on how many clients there are is met as far as the budget goes, see
`RewardRule.within`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedmerit.aggregators.weighting import ALPHA
from fedmerit.errors import InvalidInputError, SettingError, UnknownNameError
from fedmerit.incentive.money import (
    MOST,
    Share,
    check_amount,
    check_clients,
    exponential_shares,
    split,
)
from fedmerit.types import Contributions
from fedmerit.validation import check_count, check_number

# What a rule may pay for; a panel pays for value, see `fedmerit.panel.Panel`.
COLUMNS = ("score", "worked")


@dataclass(frozen=True)
class Payments:
    """What every client of a round is paid, in the smallest unit.

    Attributes
    ----------
    clients : tuple of str
        Ids, in the order of the scores.
    amounts : tuple of int
        One amount per client, never negative.
    unspent : int
        What is left of the budget: ``total + unspent`` is the budget. Zero for tariffs, which have
        none.
    """

    clients: tuple[str, ...]
    amounts: tuple[int, ...]
    unspent: int = 0

    @property
    def total(self) -> int:
        """Sum of all amounts."""
        return sum(self.amounts)

    def by_client(self) -> dict[str, int]:
        """Return amounts by client id."""
        return dict(zip(self.clients, self.amounts, strict=True))


@dataclass(frozen=True, kw_only=True)
class RewardRule(ABC):
    """A rule that turns scores into payments.

    Attributes
    ----------
    excluded_pay : int
        What a client that is flagged or rejected gets, but never more than any other client.
    floor : int
        What every other client gets at least.
    cap : int or None
        What a client gets at most.
    minimum : int
        Smallest amount worth sending: less than this is not paid out, and not given to others.
    column : str
        What is paid in a round: "score", or "worked", the same to all who worked, once for each
        work.
    size_cap : float
        Multiplies what is paid by the data size that a client claims, relative to the median of the
        round, but by at most so much. 0: sizes do not count.
    """

    name: ClassVar[str]

    excluded_pay: int = 0
    floor: int = 0
    cap: int | None = None
    minimum: int = 0
    column: str = "score"
    size_cap: float = 0.0

    def __post_init__(self) -> None:
        if self.column not in COLUMNS:
            raise UnknownNameError.of("column", self.column, COLUMNS)
        check_number("size_cap", self.size_cap, least=0)
        check_amount("excluded_pay", self.excluded_pay)
        check_amount("floor", self.floor)
        check_amount("minimum", self.minimum)
        if self.cap is not None:
            check_amount("cap", self.cap)
        self._check_promises({"floor": self.floor, "excluded_pay": self.excluded_pay})

    def _check_promises(self, promises: Mapping[str, int]) -> None:
        """Refuse amounts that the rule promises and its other settings make impossible."""
        for name, amount in promises.items():
            if self.cap is not None and amount > self.cap:
                raise SettingError(f"cap must be at least the {name}, {amount}, got {self.cap}")
            if 0 < amount < self.minimum:
                raise SettingError(
                    f"minimum must be at most the {name}, {amount}, which would never be sent, "
                    f"got {self.minimum}"
                )
        if self.cap is not None and self.cap < self.minimum:
            raise SettingError(
                f"minimum must be at most the cap, {self.cap}, or nobody is ever paid, "
                f"got {self.minimum}"
            )

    def _check_reach(self, highest: int, what: str) -> None:
        """Refuse amounts above the most that anybody can earn, which is `what`."""
        if self.minimum > highest:
            raise SettingError(
                f"minimum must be at most {what}, {highest}, or nobody is ever paid, "
                f"got {self.minimum}"
            )
        if self.excluded_pay > highest:
            raise SettingError(
                f"excluded_pay must be at most {what}, {highest}, or who works earns less, "
                f"got {self.excluded_pay}"
            )

    def within(self, eligible: int, excluded: int) -> "RewardRule":  # noqa: ARG002
        """Return the rule as far as it can be met with so many clients; here always as it is."""
        return self

    def pay(
        self,
        scores: ArrayLike,
        clients: Sequence[str],
        excluded: ArrayLike | None = None,
        *,
        last: ArrayLike | None = None,
    ) -> Payments:
        """Pay the clients of a round.

        Parameters
        ----------
        scores : (k,) float
            One finite score per client; the score of an excluded client is not looked at.
        clients : sequence of str
            Different ids. Payments do not depend on their order.
        excluded : (k,) bool, optional
            True for clients that are flagged or whose reply was rejected. Default: nobody.
        last : (k,) bool, optional
            Who gets a left-over unit only behind the others: flagged clients that are paid.

        Raises
        ------
        SettingError
            The budget does not cover what is promised to so many clients; see `within`.
        """
        values, out = _check_round(scores, excluded)
        ids = check_clients(clients, values.size)
        behind = np.zeros(out.size, dtype=np.bool_) if last is None else np.asarray(last)
        eligible = np.flatnonzero(~out)
        earned, budget = self._earn(
            [float(values[index]) for index in eligible],
            [f"{int(behind[index])}{ids[index]}" for index in eligible],  # ties go by this order
            out.size - eligible.size,
        )
        amounts = [min([self.excluded_pay, *earned])] * out.size
        for index, amount in zip(eligible, earned, strict=True):
            amounts[index] = amount
        paid = tuple(amount if amount >= self.minimum else 0 for amount in amounts)
        if sum(paid) > MOST:
            raise InvalidInputError(
                f"the payments of a round must add up to at most {MOST}, got {sum(paid)}"
            )
        return Payments(ids, paid, 0 if budget is None else budget - sum(paid))

    @abstractmethod
    def _earn(
        self, scores: list[float], clients: list[str], excluded: int
    ) -> tuple[list[int], int | None]:
        """Return what each eligible client earns, and the budget if there is one."""


@dataclass(frozen=True, kw_only=True)
class Pot(RewardRule):
    """Shares of a fixed budget.

    The pay of excluded clients and the floors come out of the same budget, which must cover them.
    Where no client has a positive share, only these are paid and the rest stays unspent.
    """

    budget: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amount("budget", self.budget)
        promises = {"floor": self.floor, "excluded_pay": self.excluded_pay, "minimum": self.minimum}
        self._check_budget(promises)

    def _check_budget(self, promises: Mapping[str, int]) -> None:
        """Refuse what the budget could not even pay to one client."""
        for name, amount in promises.items():
            if amount > self.budget:
                raise SettingError(
                    f"budget must be at least the {name}, {amount}, got {self.budget}"
                )

    def within(self, eligible: int, excluded: int) -> "Pot":
        """Return the rule as far as the budget goes with so many clients.

        Whoever is excluded is the first to get nothing; then the floor is lowered for all alike,
        to nothing where it would be less than is worth sending.
        """
        if excluded * self.excluded_pay + eligible * self.floor <= self.budget:
            return self
        floor = min(self.floor, self.budget // max(eligible, 1))
        return replace(self, excluded_pay=0, floor=floor if floor >= self.minimum else 0)

    @abstractmethod
    def shares(self, scores: list[float]) -> Sequence[Share]:
        """Return the share of each eligible client; it must not decrease in its score."""

    def _earn(
        self, scores: list[float], clients: list[str], excluded: int
    ) -> tuple[list[int], int | None]:
        promised = excluded * self.excluded_pay + len(scores) * self.floor
        if promised > self.budget:
            raise SettingError(
                f"budget must cover {excluded} excluded clients at {self.excluded_pay} and "
                f"{len(scores)} others at a floor of {self.floor}, together {promised}, "
                f"got {self.budget}"
            )
        rest = self.budget - excluded * self.excluded_pay
        shares = self.shares(scores)
        return split(rest, shares, clients, floor=self.floor, cap=self.cap), self.budget


@dataclass(frozen=True, kw_only=True)
class SoftmaxShare(Pot):
    """Share of the budget by exp(alpha * Q), the weight that Fed-PCA gives an update.

    Zero is what noise earns on average, and a softmax would pay for it: with `positive_only` a
    client without a positive score has no share.
    """

    name: ClassVar[str] = "softmax"

    alpha: float = ALPHA
    positive_only: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("alpha", self.alpha, above=0)

    def shares(self, scores: list[float]) -> Sequence[Share]:
        """Return exp(alpha * score), exact in its order."""
        held = [index for index, score in enumerate(scores) if score > 0 or not self.positive_only]
        shares: list[Share] = [0] * len(scores)
        weights = exponential_shares([self.alpha * scores[index] for index in held])
        for index, weight in zip(held, weights, strict=True):
            shares[index] = weight
        return shares


@dataclass(frozen=True, kw_only=True)
class PositiveShare(Pot):
    """Share of the budget by the positive part of the score."""

    name: ClassVar[str] = "positive"

    def shares(self, scores: list[float]) -> Sequence[Share]:
        """Return max(score, 0)."""
        return [max(score, 0.0) for score in scores]


@dataclass(frozen=True, kw_only=True)
class FeePlusBonus(PositiveShare):
    """A fixed fee for every eligible client, and a bonus pot shared by the positive part.

    `budget` is the pot; the fees come on top of it, one per client that is not excluded.
    """

    name: ClassVar[str] = "fee-plus-bonus"

    fee: int

    def __post_init__(self) -> None:
        check_amount("fee", self.fee)
        super().__post_init__()
        self._check_promises({"fee": self.fee})
        highest = check_amount("fee and budget together", self.fee + self.budget)
        self._check_reach(highest, "fee and budget together")

    def _check_budget(self, promises: Mapping[str, int]) -> None:
        """Fees and excluded pay come on top of the budget, which lifts them to the floor."""
        super()._check_budget({"floor": promises["floor"] - self.fee})

    def within(self, eligible: int, excluded: int) -> "FeePlusBonus":  # noqa: ARG002
        """Return the rule as far as the pot can lift fees to the floor."""
        if eligible * (self.floor - self.fee) <= self.budget:
            return self
        floor = self.fee + self.budget // eligible
        return replace(self, floor=floor if floor >= self.minimum else 0)

    def _earn(
        self, scores: list[float], clients: list[str], excluded: int
    ) -> tuple[list[int], int | None]:
        fees = len(scores) * self.fee + excluded * self.excluded_pay
        bonuses = split(
            self.budget,
            self.shares(scores),
            clients,
            floor=max(0, self.floor - self.fee),
            cap=None if self.cap is None else self.cap - self.fee,
        )
        return [self.fee + bonus for bonus in bonuses], self.budget + fees


def _check_round(
    scores: ArrayLike, excluded: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"scores must be numbers, got {scores!r}") from None
    if values.ndim != 1:
        raise InvalidInputError(f"scores must be a vector, got shape {values.shape}")
    out = np.zeros(values.size, dtype=np.bool_) if excluded is None else np.asarray(excluded)
    if out.shape != values.shape or out.dtype != np.bool_:
        raise InvalidInputError(
            f"excluded must be one bool per client, shape {values.shape}, "
            f"got {out.dtype} of shape {out.shape}"
        )
    bad = ~np.isfinite(values) & ~out
    if bad.any():
        raise InvalidInputError(
            f"scores must be finite, got {values[bad][0]} at client {int(np.argmax(bad))}"
        )
    return values, out


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

    Raises
    ------
    SettingError
        Vesting, and pay for excluded clients: these would get more than a newcomer.
    """
    check_vesting(vesting, rule)
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
    if not rule.size_cap or sizes is None:
        return values
    claimed = np.array([nan if size is None else _size(size) for size in sizes])
    if (claimed > 0).any():
        usual = float(np.median(claimed[claimed > 0]))
        factor = np.minimum(np.where(np.isnan(claimed), usual, claimed) / usual, rule.size_cap)
        flagged = contributions.flagged
        if not flagged.all():  # who is flagged does not gain by a claim on who is not
            factor[flagged] = np.minimum(factor[flagged], factor[~flagged].min())
        values = values * factor
    return values


def _size(size: float) -> float:
    try:
        return check_number("sizes", float(size), least=0)
    except OverflowError:
        raise InvalidInputError("sizes must be finite, got one beyond all numbers") from None


def check_vesting(vesting: int, rule: RewardRule) -> None:
    """Check the rounds of vesting, which go with no pay for excluded clients."""
    if not vesting:
        return
    check_count("vesting", vesting, least=0)
    if rule.excluded_pay:
        raise SettingError(
            "vesting needs a reward with excluded_pay 0, or who is flagged would get more than "
            f"a newcomer, got {rule.excluded_pay}"
        )


def vested(paid: Payments, vesting: int, worked: Mapping[str, int], minimum: int = 0) -> Payments:
    """Return what is left of payments for clients that worked fewer rounds than `vesting`."""
    parts = (
        amount * min(check_count("worked", worked.get(client, 0), least=0), vesting) // vesting
        for client, amount in zip(paid.clients, paid.amounts, strict=True)
    )
    amounts = tuple(part if part >= minimum else 0 for part in parts)
    return Payments(paid.clients, amounts, paid.unspent + paid.total - sum(amounts))
