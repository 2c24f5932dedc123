from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit.errors import InvalidInputError, SettingError
from fedmerit.incentive.money import exponential_shares, split

SHARE = st.one_of(
    st.floats(0, 1e300, allow_subnormal=True),
    st.sampled_from([0.0, 1.0, 5e-324, 1e308]),
    st.floats(0, 1),
)
SHARES = st.lists(SHARE, min_size=1, max_size=12)


def names(count: int) -> list[str]:
    return [f"client {index}" for index in range(count)]


@given(SHARES, st.integers(0, 10**15))
def test_parts_add_up_to_the_last_unit(shares: list[float], budget: int) -> None:
    parts = split(budget, shares, names(len(shares)))
    assert min(parts) >= 0
    assert sum(parts) == (budget if any(shares) else 0)


@given(SHARES, st.integers(0, 10**9))
def test_every_part_is_within_one_unit_of_its_fair_amount(shares: list[float], budget: int) -> None:
    total = sum(map(Fraction, shares), Fraction(0))
    for part, share in zip(split(budget, shares, names(len(shares))), shares, strict=True):
        fair = budget * Fraction(share) / total if total else Fraction(0)
        assert abs(part - fair) < 1


@given(SHARES, st.integers(0, 1000), st.randoms(use_true_random=False))
def test_order_of_clients_does_not_matter(shares: list[float], budget: int, random) -> None:
    clients = names(len(shares))
    expected = dict(zip(clients, split(budget, shares, clients), strict=True))
    order = list(range(len(shares)))
    random.shuffle(order)
    shuffled = [clients[index] for index in order]
    parts = split(budget, [shares[index] for index in order], shuffled)
    assert dict(zip(shuffled, parts, strict=True)) == expected


@given(SHARES, st.integers(0, 300), SHARE, st.integers(0, 20), st.integers(0, 60))
def test_a_larger_share_never_gets_less(
    shares: list[float], extra: int, more: float, floor: int, room: int
) -> None:
    clients = names(len(shares))
    budget = floor * len(shares) + extra
    before = split(budget, shares, clients, floor=floor, cap=floor + room)
    raised = [max(shares[0], more), *shares[1:]]
    after = split(budget, raised, clients, floor=floor, cap=floor + room)
    assert after[0] >= before[0]


@given(SHARES, st.integers(0, 300), st.integers(0, 20), st.integers(0, 60))
def test_bounds_hold_and_money_is_kept_back_only_when_all_are_full(
    shares: list[float], extra: int, floor: int, room: int
) -> None:
    cap, budget = floor + room, floor * len(shares) + extra
    parts = split(budget, shares, names(len(shares)), floor=floor, cap=cap)
    assert all(floor <= part <= cap for part in parts)
    assert sum(parts) <= budget
    if sum(parts) < budget:
        assert all(
            part == (cap if share else floor) for part, share in zip(parts, shares, strict=True)
        )


def test_what_is_left_goes_to_the_largest_remainders() -> None:
    assert split(10, [1, 2, 4], ["ann", "bob", "cat"]) == [1, 3, 6]  # 1.43, 2.86, 5.71
    assert split(11, [5, 3, 1], ["ann", "bob", "cat"]) == [6, 4, 1]  # 6.11, 3.67, 1.22


def test_ties_go_to_the_first_ids() -> None:
    assert split(2, [1, 1, 1], ["c", "a", "b"]) == [0, 1, 1]


def test_caps_never_spend_more_than_there_is():
    assert split(2, [1.0, 1.0, 1.0], ["a", "b", "c"], cap=1) == [1, 1, 0]


def test_raising_a_capped_share_gives_the_rest_to_the_others() -> None:
    assert split(100, [98, 1, 1], ["a", "b", "c"], floor=10, cap=60) == [60, 20, 20]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8))
def test_exponential_shares_keep_the_order(exponents: list[float]) -> None:
    shares = exponential_shares(exponents)
    ranked = sorted(zip(exponents, shares, strict=True))
    assert [share for _, share in ranked] == sorted(shares)
    assert max(shares) >= 1


def test_exponential_shares_have_the_right_ratio() -> None:
    low, high = exponential_shares([0.0, 1.0])
    assert high / low == pytest.approx(Decimal(1).exp())


def test_exponents_beyond_reason_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"between -1e\+09 and 1e\+09, got 1e\+10"):
        exponential_shares([1.0, 1e10])
    assert exponential_shares([1e9, 0.0])[1] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": -1}, "budget must not be negative, got -1"),
        ({"budget": 1.5}, "budget must be an integer of the smallest unit, got 1.5"),
        ({"budget": True}, "budget must be an integer"),
        ({"floor": 60}, r"budget must cover the floor of every client, 2 x 60, got 100"),
        ({"cap": 1, "floor": 2}, "cap must be at least the floor, 2, got 1"),
        ({"shares": [1.0, -1.0]}, "shares must be finite and not negative, got -1.0"),
        ({"shares": [1.0, float("nan")]}, "shares must be finite"),
        ({"clients": ["a", "a"]}, "client ids must be different, got 'a' twice"),
        ({"clients": ["a"]}, "clients must have one id per score, 2, got 1"),
        ({"clients": ["a", 2]}, "client ids must be text, got 2"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, message: str) -> None:
    good = {"budget": 100, "shares": [1.0, 2.0], "clients": ["a", "b"]}
    with pytest.raises((SettingError, InvalidInputError), match=message):
        split(**(good | arguments))
