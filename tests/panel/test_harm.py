"""Bets on harm: an error rate over rounds, and how soon harm is seen."""

import numpy as np
import pytest

from fedmerit.panel.estimate import estimate
from fedmerit.panel.harm import bet_on_harm, harmful
from tests.panel.games import additive_rounds, names


def bet_through(rounds):
    """The wealth after every round."""
    wealth, after = {}, []
    for number, heard in enumerate(rounds):
        before = estimate(rounds[:number], trusted=False)
        wealth = bet_on_harm(wealth, heard, before, {})
        after.append(wealth)
    return after


def test_a_client_that_harms_is_named_in_a_few_rounds_and_nobody_else():
    worth = np.array([0.01] * 9 + [-0.11])  # adds -0.10 + 0.02 with the progress
    rounds = additive_rounds(worth - worth.mean(), np.random.default_rng(1), pairs=2, noise=0.005)
    named = [harmful(wealth, 0.01) for wealth in bet_through(rounds)]
    assert named[-1] == ["c09"]
    assert named[3] == ["c09"]


@pytest.mark.slow
def test_clients_that_add_nothing_are_named_at_the_stated_rate():
    """A quarter of the clients add exactly nothing: the edge of what must not be named."""
    named = 0
    runs = 100
    for seed in range(runs):
        worth = np.array([-0.02] * 2 + [0.02 / 3] * 6)
        rng = np.random.default_rng(seed)
        rounds = additive_rounds(worth, rng, rounds=10, pairs=1, noise=0.01, gain=0.02)
        named += any(harmful(wealth, 0.05) for wealth in bet_through(rounds))
    assert named / runs < 0.05


def test_nothing_is_bet_where_a_round_gains_nothing():
    worth = np.linspace(-0.05, 0.05, 9)
    rounds = additive_rounds(worth, np.random.default_rng(2), noise=0.005, gain=-0.01)
    assert set(bet_through(rounds)[-1].values()) == {0.0}


def test_one_round_cannot_name_anybody():
    worth = np.array([0.05] * 19 + [-0.95])
    (heard,) = additive_rounds(
        worth, np.random.default_rng(3), rounds=1, pairs=8, noise=1e-4, gain=0.05
    )
    wealth = bet_on_harm({}, heard, estimate(()), {})
    assert harmful(wealth, 0.01) == []


def test_who_is_kept_out_is_held_against_those_in_the_model():
    """The progress is theirs: a client that adds nothing to it is at zero, not at the mean."""
    worth = np.array([0.0] * 9 + [-0.02])  # the nine add 0.02 each, which is what the round gains
    rounds = additive_rounds(worth, np.random.default_rng(8), pairs=4, noise=0.002, gain=0.02)
    inside = {name: float(name != "c09") for name in names(10)}
    before, heard = estimate(rounds[:-1]), rounds[-1]
    # Some evidence stands against it, so both look.
    right, wrong = (
        bet_on_harm({"c09": 1.0}, heard, before, {}, weights)["c09"] for weights in (inside, None)
    )
    assert right > wrong


def test_who_stops_harming_is_cleared():
    bad = np.array([0.01] * 9 + [-0.09])
    first = additive_rounds(bad, np.random.default_rng(4), pairs=2, noise=0.003, rounds=5)
    good = additive_rounds(np.zeros(10), np.random.default_rng(5), pairs=2, noise=0.003, rounds=12)
    wealth = bet_through(first)[-1]
    assert harmful(wealth, 0.01) == ["c09"]
    for heard in good:
        wealth = bet_on_harm(wealth, heard, estimate(()), {})
    assert harmful(wealth, 0.01) == []


def test_nothing_is_bet_on_whom_nobody_suspects():
    """Else the first rounds, in which everybody helps, would hide harm that comes later."""
    rounds = additive_rounds(np.zeros(8), np.random.default_rng(9), pairs=2, noise=0.001, gain=0.2)
    assert set(bet_through(rounds)[-1].values()) == {0.0}


def test_two_judges_are_too_few_to_tell():
    worth = np.array([0.05] * 5 + [-0.25])
    rounds = additive_rounds(worth, np.random.default_rng(6), judges=names(6)[:2], pairs=8)
    assert bet_through(rounds)[-1] == {}


def test_a_rate_of_zero_names_nobody():
    assert harmful({"a": 1000.0}, 0.0) == []
    assert harmful({}, 0.01) == []
