"""Pay never stops training; newcomers are paid in part, strangers not at all."""

import numpy as np
import pytest

import fedmerit
from fedmerit.errors import SettingError
from fedmerit.flags import Flag, Kind
from fedmerit.server.rules import RoundRules
from tests.server.federation import CLIENTS, new, updates


@pytest.mark.parametrize(
    "reward",
    [
        "positive:budget=100,floor=40",  # five clients at 40 are more than 100
        "positive:budget=10,floor=10,excluded-pay=10",
        "fee-plus-bonus:fee=1,floor=60,budget=100",
        "softmax:budget=100,alpha=1e12",  # an exponent beyond all bounds
        "exponential:scale=1,rate=1e9",  # an amount beyond all bounds
    ],
)
def test_a_round_that_cannot_be_paid_as_promised_is_trained_all_the_same(reward: str) -> None:
    paid, unpaid = new(reward=reward), new()
    for number in (1, 2):
        result = paid.settle(updates=updates(number))
        expected = unpaid.settle(updates=updates(number))
        assert result.weights == expected.weights
        assert result.rejected == {}
        budget = getattr(paid.rules.reward, "budget", 0) + 5 * getattr(paid.rules.reward, "fee", 0)
        assert 0 <= sum(result.payments.values()) <= budget
    np.testing.assert_array_equal(paid.model, unpaid.model)


def test_a_round_that_cannot_be_paid_says_so() -> None:
    result = new(reward="exponential:scale=1,rate=1e9").settle(updates=updates(1))
    said = {flag.words for flag in result.flags.values() if flag and flag.kind is Kind.UNPAID}
    assert any("the round cannot be paid: rule 'exponential' must give a reward" in w for w in said)


def test_extra_accounts_do_not_stop_a_round() -> None:
    sent = updates(1)
    crowd = {f"extra {i}": np.full_like(sent["ann"], np.nan) for i in range(40)}
    rule = "positive:budget=100,floor=10,excluded-pay=5"
    alone = new(reward=rule).settle(updates=sent)
    among = new(reward=rule).settle(updates=sent | crowd)
    assert among.weights == alone.weights
    assert sum(among.payments.values()) <= 100
    assert all(among.payments.get(name, 0) == 0 for name in crowd)


def test_newcomers_are_paid_in_part_until_they_have_worked() -> None:
    server = new(reward="positive:budget=1000", vesting=3)
    whole = new(reward="positive:budget=1000")
    for number in range(1, 6):
        got = server.settle(updates=updates(number)).payments
        full = whole.settle(updates=updates(number)).payments
        for client in ("ann", "bob", "cat", "dan"):
            worked = min(number - 1, 3)
            assert got[client] == full[client] * worked // 3
    joined = updates(6, clients=(*CLIENTS, "fay"))
    result = server.settle(updates=joined)
    assert result.payments["fay"] == 0
    assert result.payments["ann"] > 0
    assert result.flags["fay"] == Flag(Kind.UNPAID, "pay vests over 3 rounds of work, 0 so far")


def test_vesting_goes_on_after_a_restart(tmp_path) -> None:
    server = new(reward="positive:budget=1000", vesting=4)
    for number in (1, 2):
        server.settle(updates=updates(number))
    server.save(tmp_path / "state")
    again = fedmerit.Server.load(tmp_path / "state")
    assert again.rules == server.rules
    assert again.settle(updates=updates(3)).payments == server.settle(updates=updates(3)).payments


def test_who_is_not_registered_takes_no_part_and_is_not_paid(tmp_path) -> None:
    known = CLIENTS[:4]
    rule = "positive:budget=1000,floor=50,excluded-pay=50"
    server = new(reward=rule, registered=known)
    alone = new(reward=rule).settle(updates=updates(1, clients=known))
    result = server.settle(updates=updates(1))
    assert result.rejected == {"eve": "the client must be registered"}
    assert result.weights == alone.weights
    assert result.payments == alone.payments
    server.save(tmp_path / "state")
    assert fedmerit.Server.load(tmp_path / "state").rules.registered == tuple(sorted(known))


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"vesting": -1}, "vesting must be at least 0, got -1"),
        ({"vesting": 1.5}, "vesting must be an integer, got 1.5"),
        ({"vesting": 3}, "vesting needs a reward that vests, got 3 and none"),
        ({"registered": "ann"}, "registered must be a collection of client ids, got 'ann'"),
        ({"registered": 7}, "registered must be a collection of client ids, got 7"),
        ({"vesting": 2, "reward": "positive:budget=9,excluded_pay=1"}, "vesting needs a reward"),
    ],
)
def test_rules_of_who_is_paid_check_themselves(settings, rule: str) -> None:
    with pytest.raises(SettingError, match=rule):
        RoundRules(**settings)


@pytest.mark.parametrize(
    "reward",
    [
        f"fee-plus-bonus:fee={2**62},budget=1",
        "affine:base=9e18,slope=1",
        f"wage:wage={2**62},most=1",
    ],
)
def test_more_than_a_ledger_can_hold_stops_no_round(tmp_path, reward: str) -> None:
    with new(reward=reward, ledger=tmp_path / "run.ledger") as server:
        result = server.settle(updates=updates(1))
        assert set(result.payments.values()) == {0}
        said = [flag.words for flag in result.flags.values() if flag is not None]
        assert any(
            "the round cannot be paid: the payments of a round must add up" in w for w in said
        )
        assert sum(result.weights.values()) == pytest.approx(1)
