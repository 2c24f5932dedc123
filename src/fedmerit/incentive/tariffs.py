"""Reward rules that divide no budget: tariffs, which pay by one's own score, and the wage."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median
from typing import ClassVar

from fedmerit.errors import InvalidInputError, SettingError
from fedmerit.incentive.money import MOST, check_amount
from fedmerit.incentive.rewards import RewardRule
from fedmerit.validation import check_number


@dataclass(frozen=True, kw_only=True)
class Tariff(RewardRule):
    """R = f(Q): paid by one's own score alone. Subclass it and give `value` for any other f.

    Amounts are rounded down to whole units, so a higher score never earns less.
    """

    @abstractmethod
    def value(self, score: float) -> float:
        """Return f(score), in the smallest unit; f must not decrease."""

    def _earn(
        self,
        scores: list[float],
        clients: list[str],  # noqa: ARG002
        excluded: int,  # noqa: ARG002
    ) -> tuple[list[int], int | None]:
        return [self._bounded(score) for score in scores], None

    def _bounded(self, score: float) -> int:
        try:
            value = self.value(score)
        except OverflowError:
            value = math.inf
        if self.cap is not None and value >= self.cap:
            return self.cap
        if not value <= MOST:
            raise InvalidInputError(
                f"rule {self.name!r} must give a reward of at most {MOST} or have a cap, "
                f"got {value} for score {score:g}"
            )
        return max(self.floor, math.floor(value))


@dataclass(frozen=True, kw_only=True)
class Affine(Tariff):
    """R = base + slope * Q, never below the floor."""

    name: ClassVar[str] = "affine"

    base: float
    slope: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("base", self.base)
        check_number("slope", self.slope, above=0)

    def value(self, score: float) -> float:
        """Return base + slope * score."""
        return self.base + self.slope * score


@dataclass(frozen=True, kw_only=True)
class Identity(Affine):
    """R = Q, with one point of score worth `slope` units; nothing for a score below zero."""

    name: ClassVar[str] = "identity"

    base: float = field(default=0.0, init=False)


@dataclass(frozen=True, kw_only=True)
class Exponential(Tariff):
    """R = scale * exp(rate * Q): positive for every score."""

    name: ClassVar[str] = "exponential"

    scale: float
    rate: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("scale", self.scale, above=0)
        check_number("rate", self.rate, above=0)

    def value(self, score: float) -> float:
        """Return scale * exp(rate * score)."""
        return self.scale * math.exp(self.rate * score)


@dataclass(frozen=True, kw_only=True)
class Wage(RewardRule):
    """`wage` for a typical client of the round, and in proportion to the score for the others.

    Typical is the median of the positive scores. So the pay that a client can expect depends
    neither on the round in which it is drawn, although honest reports agree less as training goes
    on, nor on how many others are, and accounts that share one work share one wage. One round does
    not decide: nobody gets more than `most` wages in it.
    """

    name: ClassVar[str] = "wage"

    wage: int
    most: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amount("wage", self.wage)
        highest = math.floor(Fraction(check_number("most", self.most, least=1)) * self.wage)
        if self.cap is None and highest > MOST:
            raise SettingError(
                f"wage times most, without a cap, must be at most {MOST}, got {highest}"
            )
        self._check_reach(max(highest, self.floor), "wage times most, or the floor")

    def _earn(
        self,
        scores: list[float],
        clients: list[str],  # noqa: ARG002
        excluded: int,  # noqa: ARG002
    ) -> tuple[list[int], int | None]:
        typical = median([score for score in scores if score > 0] or [1.0])
        ratios = [min(max(score, 0.0) / typical, self.most) for score in scores]
        earned = [max(self.floor, math.floor(Fraction(ratio) * self.wage)) for ratio in ratios]
        return [amount if self.cap is None else min(amount, self.cap) for amount in earned], None
