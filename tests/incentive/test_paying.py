from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fedmerit.errors import InvalidInputError, SettingError, UnknownNameError
from fedmerit.flags import Flag, Kind
from fedmerit.incentive.registry import parse_reward
from fedmerit.incentive.rewards import FeePlusBonus, PositiveShare, pay_round
from fedmerit.types import Contributions, Evidence

SCORES = np.array([0.75, 0.25, 1.25])  # exact, so that nothing is left over


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


def test_a_part_below_the_minimum_is_not_sent() -> None:
    rule = PositiveShare(budget=90, minimum=6)
    paid = pay_round(rule, contributions(), ["a", "b", "c"], vesting=4, worked={"a": 9, "b": 2})
    assert paid.by_client() == {"a": 30, "b": 0, "c": 0}
    assert paid.total + paid.unspent == 90


def scored(*scores: float) -> Contributions:
    return Contributions.of("test", np.array(scores))


def test_the_same_to_all_who_worked_once_for_each_work() -> None:
    evidence = cast(Evidence, SimpleNamespace(copies=np.array([1.0, 2.0, 2.0, 1.0])))
    result = replace(scored(0.9, 0.2, 0.4, 0.0), evidence=evidence)
    rule = PositiveShare(budget=1000, column="worked")
    assert pay_round(rule, result, list("abcd")).amounts == (500, 250, 250, 0)


def test_claimed_sizes_count_up_to_a_cap() -> None:
    result, sizes = scored(0.5, 0.5, 0.5, 0.5), [100, 100, 10, 1_000_000]
    by_size = PositiveShare(budget=4_100, size_cap=2.0)
    assert pay_round(by_size, result, list("abcd"), sizes=sizes).amounts == (1000, 1000, 100, 2000)
    without = PositiveShare(budget=4_100)
    assert pay_round(without, result, list("abcd"), sizes=sizes).amounts == (1025,) * 4
    unknown = pay_round(by_size, result, list("abcd"), sizes=[100, None, 100, 200])
    assert unknown.amounts == (820, 820, 820, 1640)


def test_a_column_that_there_is_not_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="column"):
        PositiveShare(budget=1, column="wrok")
    assert parse_reward("positive:budget=5,column=worked,size-cap=3").size_cap == 3


@pytest.mark.parametrize("column", ["score", "worked"])
@pytest.mark.parametrize("sizes", [[300, 900], [300, None], [None, 900], [10, 20]])
def test_a_claimed_size_never_lifts_who_is_flagged_above_who_is_not(column, sizes) -> None:
    result = Contributions.of("test", np.ones(2), flags=[None, Flag(Kind.COPY, twin="0")])
    for order in (slice(None), slice(None, None, -1)):
        turned = replace(result, flags=result.flags[order])
        rule = PositiveShare(budget=100, size_cap=3.0, column=column)
        paid = pay_round(rule, turned, ["a", "b"], sizes=sizes[order]).amounts[order]
        assert paid[1] <= paid[0]


@pytest.mark.parametrize("size", [10**400, float("inf"), float("nan"), -5])
def test_a_size_is_a_finite_number(size) -> None:
    rule = PositiveShare(budget=100, size_cap=3.0)
    with pytest.raises(InvalidInputError, match="sizes must be"):
        pay_round(rule, scored(0.5, 0.5), ["a", "b"], sizes=[size, 3])


def test_rounds_of_work_are_counted_in_whole_numbers() -> None:
    rule, result = PositiveShare(budget=100), scored(0.5, 0.5)
    odd: list[tuple[Any, Any]] = [(2.5, 1), (-3, 1), (10, 2.5), (10, -1)]
    for vesting, worked in odd:
        with pytest.raises(SettingError, match=r"vesting|worked"):
            pay_round(rule, result, ["a", "b"], vesting=vesting, worked={"a": worked, "b": 1})
    with pytest.raises(SettingError, match="vesting needs a reward with excluded_pay 0"):
        pay_round(replace(rule, excluded_pay=5), result, ["a", "b"], vesting=10)
