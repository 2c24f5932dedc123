import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit.errors import InvalidInputError, SettingError, UnknownNameError
from fedmerit.incentive.registry import RULES, parse_reward, reward_rule
from fedmerit.incentive.rewards import FeePlusBonus, PositiveShare, Pot, RewardRule, SoftmaxShare
from fedmerit.incentive.tariffs import Affine, Exponential, Identity, Wage

RULE_SET = [
    Affine(base=50.0, slope=1000.0),
    Affine(base=50.0, slope=1000.0, floor=20, cap=120, excluded_pay=5),
    Identity(slope=10_000.0),
    Exponential(scale=10.0, rate=3.0, cap=10_000),
    SoftmaxShare(budget=100_003),
    SoftmaxShare(budget=100_003, alpha=250.0, positive_only=False, excluded_pay=7),
    SoftmaxShare(budget=101, floor=5, cap=40, minimum=5),
    PositiveShare(budget=100_003),
    PositiveShare(budget=101, floor=2, cap=30, excluded_pay=1),
    FeePlusBonus(fee=13, budget=997, cap=400),
    Wage(wage=1000),
    Wage(wage=1000, most=1.5, floor=20, cap=1200, excluded_pay=5),
]
SCORES = st.lists(st.floats(-1, 1), min_size=1, max_size=10)
rules = pytest.mark.parametrize("rule", RULE_SET, ids=lambda rule: repr(rule))


def names(count: int) -> list[str]:
    return [f"client {index}" for index in range(count)]


@rules
@given(SCORES, st.data())
def test_payments_are_not_negative_and_add_up(rule: RewardRule, scores, data) -> None:
    excluded = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    payments = rule.pay(scores, names(len(scores)), excluded)
    assert min(payments.amounts) >= 0
    assert payments.unspent >= 0
    if isinstance(rule, Pot):
        fees = rule.fee if isinstance(rule, FeePlusBonus) else 0
        paid_outside = excluded.count(True) * rule.excluded_pay if fees else 0
        budget = rule.budget + fees * excluded.count(False) + paid_outside
        assert payments.total + payments.unspent == budget


@rules
@given(SCORES, st.floats(-1, 1))
def test_a_higher_score_with_the_others_fixed_never_pays_less(
    rule: RewardRule, scores: list[float], other: float
) -> None:
    clients = names(len(scores))
    low, high = sorted([scores[0], other])
    before = rule.pay([low, *scores[1:]], clients).amounts[0]
    assert rule.pay([high, *scores[1:]], clients).amounts[0] >= before


@rules
@given(SCORES, st.randoms(use_true_random=False))
def test_order_of_clients_does_not_matter(rule: RewardRule, scores, random) -> None:
    clients = names(len(scores))
    order = list(range(len(scores)))
    random.shuffle(order)
    shuffled = rule.pay([scores[i] for i in order], [clients[i] for i in order])
    assert shuffled.by_client() == rule.pay(scores, clients).by_client()


@rules
@given(SCORES)
def test_excluded_clients_get_what_the_rule_says_and_no_more_than_any_other(
    rule: RewardRule, scores: list[float]
) -> None:
    excluded = [True, *[False] * len(scores)]
    payments = rule.pay([math.nan, *scores], names(len(scores) + 1), excluded)
    least = min(payments.amounts[1:])
    assert payments.amounts[0] <= least
    if least >= rule.excluded_pay >= rule.minimum:
        assert payments.amounts[0] == rule.excluded_pay


@rules
@given(SCORES, st.data())
def test_who_is_flagged_never_gets_more_than_who_is_not_with_the_same_score(
    rule: RewardRule, scores: list[float], data
) -> None:
    """Flagged and excluded, or flagged and paid; names, and with them ties, in any order."""
    count = len(scores) + 2
    score = data.draw(st.sampled_from(scores))
    out, ids = data.draw(st.booleans()), data.draw(st.permutations(names(count)))
    flags = [True, *[False] * (count - 1)]
    paid = rule.pay([score, score, *scores], ids, flags if out else None, last=flags).amounts
    assert all(
        paid[0] <= amount
        for amount, other in zip(paid[1:], [score, *scores], strict=True)
        if other == score
    )


IMPOSSIBLE = [
    (lambda: PositiveShare(budget=5, floor=3, cap=2), "cap must be at least the floor, 3, got 2"),
    (lambda: PositiveShare(budget=50, excluded_pay=3, cap=2), "at least the excluded_pay, 3, got"),
    (lambda: PositiveShare(budget=50, floor=3, minimum=5), "minimum must be at most the floor, 3"),
    (lambda: PositiveShare(budget=50, excluded_pay=3, minimum=5), "at most the excluded_pay, 3"),
    (lambda: PositiveShare(budget=50, cap=3, minimum=5), "at most the cap, 3, or nobody is ever"),
    (lambda: PositiveShare(budget=5, floor=6), "budget must be at least the floor, 6, got 5"),
    (lambda: PositiveShare(budget=5, excluded_pay=6), "at least the excluded_pay, 6, got 5"),
    (lambda: SoftmaxShare(budget=5, minimum=6), "budget must be at least the minimum, 6, got 5"),
    (lambda: Affine(base=1, slope=1, cap=3, minimum=5), "minimum must be at most the cap, 3"),
    (lambda: Identity(slope=1, floor=3, minimum=5), "minimum must be at most the floor, 3"),
    (lambda: FeePlusBonus(fee=9, budget=5, cap=8), "cap must be at least the fee, 9, got 8"),
    (lambda: FeePlusBonus(fee=3, budget=5, minimum=4), "minimum must be at most the fee, 3"),
    (lambda: FeePlusBonus(fee=3, budget=5, floor=9), "budget must be at least the floor, 6"),
    (lambda: FeePlusBonus(fee="3", budget=5), "fee must be an integer"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("build", "message"), IMPOSSIBLE)
def test_promises_that_cannot_be_kept_together_are_refused_when_the_rule_is_made(
    build, message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        build()


POTS = [rule for rule in RULE_SET if isinstance(rule, Pot)] + [
    PositiveShare(budget=100, floor=30),
    PositiveShare(budget=100, floor=30, minimum=20, excluded_pay=20),
    PositiveShare(budget=0),
    FeePlusBonus(fee=5, floor=30, budget=100, minimum=5),
    SoftmaxShare(budget=7, floor=7, cap=7),
]


@pytest.mark.parametrize("rule", POTS, ids=repr)
@given(st.integers(0, 60), st.integers(0, 60))
def test_any_number_of_clients_can_be_paid_as_far_as_the_budget_goes(rule, eligible, excluded):
    count = eligible + excluded
    out = np.arange(count) >= eligible
    met = rule.within(eligible, excluded)
    assert (met.floor, met.excluded_pay) <= (rule.floor, rule.excluded_pay)
    paid = met.pay([1.0] * count, names(count), out)
    assert paid.unspent >= 0
    try:
        expected = rule.pay([1.0] * count, names(count), out)
    except SettingError:
        assert met != rule
    else:
        assert met == rule
        assert paid == expected


@pytest.mark.parametrize("rule", [PositiveShare(budget=100), SoftmaxShare(budget=100)])
def test_budget_is_kept_when_nobody_has_a_positive_score(rule: RewardRule) -> None:
    payments = rule.pay([0.0, -0.1], ["a", "b"])
    assert payments.amounts == (0, 0)
    assert payments.unspent == 100


def test_a_softmax_that_may_pay_for_noise_pays_for_noise() -> None:
    rule = SoftmaxShare(budget=100, positive_only=False)
    assert rule.pay([0.0, 0.0], ["a", "b"]).amounts == (50, 50)


def test_budget_is_kept_when_everybody_is_excluded() -> None:
    payments = PositiveShare(budget=100, excluded_pay=3).pay([1.0, 1.0], ["a", "b"], [True, True])
    assert payments.amounts == (3, 3)
    assert payments.unspent == 94


def test_amounts_below_the_minimum_stay_unspent() -> None:
    payments = PositiveShare(budget=100, minimum=20).pay([9.0, 1.0], ["a", "b"])
    assert payments.amounts == (90, 0)
    assert payments.unspent == 10


def test_the_fee_comes_on_top_of_the_bonus_pot() -> None:
    payments = FeePlusBonus(fee=10, budget=90).pay(
        [0.2, 0.1, -0.3, 0.5], ["a", "b", "c", "d"], [False, False, False, True]
    )
    assert payments.amounts == (70, 40, 10, 0)
    assert payments.total + payments.unspent == 120


def test_tariffs_follow_their_function() -> None:
    scores, clients = [0.0, 0.25, -0.5], ["a", "b", "c"]
    assert Affine(base=100, slope=200).pay(scores, clients).amounts == (100, 150, 0)
    assert Identity(slope=100).pay(scores, clients).amounts == (0, 25, 0)
    exponential = Exponential(scale=100, rate=2).pay(scores, clients)
    assert exponential.amounts == tuple(math.floor(100 * math.exp(2 * s)) for s in scores)


def test_a_tariff_that_overflows_needs_a_cap() -> None:
    for rule in (Exponential(scale=1, rate=1e6), Identity(slope=1e30), Affine(base=1e19, slope=1)):
        with pytest.raises(InvalidInputError, match=rf"at most {2**63 - 1} or have a cap"):
            rule.pay([1.0], ["a"])
    assert Exponential(scale=1, rate=1e6, cap=9).pay([1.0], ["a"]).amounts == (9,)


@given(st.lists(st.floats(1e-3, 1), min_size=1, max_size=12), st.integers(-8, 8), st.integers(1, 3))
def test_a_wage_depends_neither_on_the_round_nor_on_how_many_came(scores, halvings, times) -> None:
    """Late rounds agree less, all of them by a factor; and the same clients may come twice."""
    rule = Wage(wage=1000)
    paid = rule.pay(scores, names(len(scores))).amounts
    late = [score * 2.0**halvings for score in scores]
    assert rule.pay(late, names(len(late))).amounts == paid
    assert rule.pay(scores * times, names(len(scores) * times)).amounts == paid * times
    assert np.median(paid) == pytest.approx(1000, abs=1) or max(scores) > 2 * np.median(scores)


def test_accounts_that_share_one_work_share_one_wage() -> None:
    scores = [1.0] * 9 + [1 / 7] * 7
    paid = Wage(wage=7000).pay(scores, names(16)).amounts
    assert paid[:9] == (7000,) * 9
    assert sum(paid[9:]) == pytest.approx(7000, abs=7)


def test_one_round_does_not_decide() -> None:
    assert Wage(wage=100).pay([1.0, 1.0, 50.0], ["a", "b", "c"]).amounts == (100, 100, 200)
    assert Wage(wage=100).pay([0.0, -1.0], ["a", "b"]).amounts == (0, 0)


@pytest.mark.parametrize(
    "text",
    [
        f"positive:budget={2**63}",
        f"positive:budget={10**30}",
        f"identity:slope=1,cap={2**63}",
        f"identity:slope=1,floor={2**63}",
        f"softmax:budget=5,minimum={2**63}",
        f"fee-plus-bonus:budget=5,fee={2**63 - 1}",
        f"fee-plus-bonus:budget={2**63 - 1},fee=1",
        f"wage:wage={2**63 - 1}",
        f"wage:wage={2**62},most=2",
    ],
)
def test_more_money_than_a_ledger_can_hold_is_refused_when_the_rule_is_made(text: str) -> None:
    with pytest.raises(SettingError, match=rf"must be at most {2**63 - 1}, got"):
        parse_reward(text)


def test_rules_are_found_by_name() -> None:
    assert set(RULES) == {
        "affine", "exponential", "fee-plus-bonus", "identity", "positive", "softmax",
        "wage",
    }  # fmt: skip
    assert reward_rule("softmax", budget=5, alpha=2.0) == SoftmaxShare(budget=5, alpha=2.0)
    with pytest.raises(UnknownNameError, match="did you mean 'softmax'"):
        reward_rule("sofmax", budget=5)
    with pytest.raises(SettingError, match="rule 'softmax' cannot be built"):
        reward_rule("softmax", bugdet=5)
    with pytest.raises(SettingError, match="rule 'identity' cannot be built"):
        reward_rule("identity", slope=1.0, base=3.0)  # that is what affine is for


@pytest.mark.parametrize("name", RULES)
def test_the_hint_of_a_rule_without_its_settings_is_a_rule(name: str) -> None:
    with pytest.raises(SettingError) as raised:
        parse_reward(name)
    hint = re.search(r"\(as '(.*)'\)", str(raised.value))
    assert hint is not None
    assert isinstance(parse_reward(hint[1]), RULES[name])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PositiveShare(budget=-5), "budget must not be negative, got -5"),
        (lambda: SoftmaxShare(budget=5, alpha=0), "alpha must be greater than 0, got 0"),
        (lambda: Affine(base=1, slope=-1), "slope must be greater than 0, got -1"),
        (lambda: Wage(wage=5, most=0.5), "most must be at least 1, got 0.5"),
        (lambda: Exponential(scale=0, rate=1), "scale must be greater than 0"),
        (lambda: PositiveShare(budget=5, floor=3).pay([1.0, 1.0], ["a", "b"]), "together 6, got 5"),
        (lambda: PositiveShare(budget=5).pay([math.nan], ["a"]), "got nan at client 0"),
        (lambda: PositiveShare(budget=5).pay([[1.0]], ["a"]), "scores must be a vector"),
        (lambda: PositiveShare(budget=5).pay(["x"], ["a"]), "scores must be numbers"),
        (lambda: PositiveShare(budget=5).pay([1.0], ["a"], [1]), "excluded must be one bool"),
    ],
)
def test_bad_settings_are_named(build, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_pay_leaves_its_inputs_alone() -> None:
    scores = np.array([0.1, 0.2])
    PositiveShare(budget=7).pay(scores, ["a", "b"])
    assert scores.tolist() == [0.1, 0.2]


def test_what_adds_up_to_more_than_a_ledger_can_hold_is_not_paid() -> None:
    half = 2**62
    for rule in (
        Affine(base=half, slope=1),
        FeePlusBonus(budget=1, fee=half),
        Wage(wage=half, most=1),
    ):
        assert rule.pay([1.0], ["a"]).total >= half
        with pytest.raises(InvalidInputError, match="payments of a round must add up to at most"):
            rule.pay([1.0, 1.0], ["a", "b"])


def test_a_wage_that_is_never_worth_sending_is_refused() -> None:
    assert Wage(wage=25, minimum=50).pay([1.0, 1.0, 9.0], ["a", "b", "c"]).amounts == (0, 0, 50)
    with pytest.raises(
        SettingError, match="minimum must be at most wage times most, or the floor, 48"
    ):
        Wage(wage=24, minimum=50)


def test_a_floor_that_is_worth_sending_can_be_met_whatever_the_wage() -> None:
    rule = Wage(wage=24, minimum=50, floor=60)
    assert rule.pay([1.0, 9.0], ["a", "b"]).amounts == (60, 60)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fee-plus-bonus:budget=10,fee=0,minimum=20", "minimum must be at most fee and budget"),
        ("fee-plus-bonus:budget=10,fee=5,excluded_pay=500", "excluded_pay must be at most fee"),
        ("wage:wage=10,excluded_pay=100", "excluded_pay must be at most wage times most"),
    ],
)
def test_what_nobody_who_works_can_earn_is_not_promised(text: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        parse_reward(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("positive:bugdet=100", "'positive' cannot be built: .* did you mean 'budget'"),
        ("wage", r"without settings it must have: wage \(as 'wage:wage=10000'\)"),
        ("positive:budget=lots", "budget of a reward must be a number, got 'lots'"),
        ("positive:budget=none", "budget of a reward must be a number, got None"),
    ],
)
def test_what_is_wrong_with_a_reward_is_said_in_its_own_words(text: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        parse_reward(text)


def test_a_setting_is_given_once() -> None:
    with pytest.raises(SettingError, match="must be given once, got budget twice"):
        parse_reward("positive:budget=100,budget=5")


def test_a_floor_that_the_pot_cannot_reach_is_lowered_or_dropped() -> None:
    rule = FeePlusBonus(budget=40, fee=10, floor=30, minimum=10)
    assert rule.within(2, 0).floor == 30
    assert rule.within(4, 0).floor == 20
    dear = FeePlusBonus(budget=60, fee=20, floor=50, minimum=20)
    assert [dear.within(count, 0).floor for count in (2, 3, 60, 1000)] == [50, 40, 21, 20]
    poor = FeePlusBonus(budget=40, fee=0, floor=30, minimum=20)
    assert [poor.within(count, 0).floor for count in (1, 2, 3)] == [30, 20, 0]
