import numpy as np

from fedmerit.flags import Flag, Kind
from fedmerit.incentive.paying import pay_round
from fedmerit.incentive.rewards import FeePlusBonus, PositiveShare
from fedmerit.types import Contributions

SCORES = np.array([0.3, 0.1, 0.5])


RIDER, TWIN = Flag(Kind.INDEPENDENT), Flag(Kind.COPY, twin="1")


def contributions(
    eligible: list[bool] | None = None, flags: list[Flag | None] | None = None
) -> Contributions:
    shown = None if eligible is None else np.array(eligible)
    return Contributions.of("test", SCORES.copy(), eligible=shown, flags=flags)


def test_without_evidence_of_work_the_rule_says_what_is_paid() -> None:
    result = contributions(eligible=[True, True, False], flags=[None, None, RIDER])
    rule = PositiveShare(budget=100, excluded_pay=4)
    assert pay_round(rule, result, ["a", "b", "c"]).by_client() == {"a": 72, "b": 24, "c": 4}


def test_rejected_replies_are_paid_as_excluded() -> None:
    rule = FeePlusBonus(fee=10, budget=90, excluded_pay=3)
    paid = pay_round(rule, contributions(), ["a", "b", "c"], ["x"])
    assert paid.by_client() == {"a": 40, "b": 20, "c": 60, "x": 3}


def test_a_copied_client_is_still_paid() -> None:
    result = contributions(flags=[TWIN, Flag(Kind.COPY, twin="0"), None])
    assert pay_round(PositiveShare(budget=90), result, ["a", "b", "c"]).amounts == (30, 10, 50)


def test_extra_accounts_lower_the_floor_and_stop_nobodys_pay() -> None:
    rule = PositiveShare(budget=100, floor=40)
    paid = pay_round(rule, contributions(), ["a", "b", "c"], [f"x{i}" for i in range(50)])
    assert min(paid.amounts[:3]) == 33
    assert paid.total == 100


def test_a_left_over_unit_goes_to_who_is_not_flagged() -> None:
    same = Contributions.of("test", np.full(3, 0.5), flags=[TWIN, None, None])
    paid = pay_round(PositiveShare(budget=10), same, ["a", "b", "c"])
    assert paid.by_client() == {"a": 3, "b": 4, "c": 3}


def test_newcomers_are_paid_in_parts_and_what_is_held_back_is_nobodys() -> None:
    rule = PositiveShare(budget=90)
    paid = pay_round(rule, contributions(), ["a", "b", "c"], vesting=4, worked={"a": 9, "b": 2})
    assert paid.by_client() == {"a": 30, "b": 5, "c": 0}
    assert paid.unspent == 55
    assert pay_round(rule, contributions(), ["a", "b", "c"]).amounts == (30, 10, 50)
