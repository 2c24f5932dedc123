"""Values of games whose answers are known in closed form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit.errors import SettingError
from fedmerit.scorers import (
    exact_shapley,
    gtg_shapley,
    individual,
    leave_one_out,
    truncated_shapley,
)

COSTS = (1.0, 2.0, 4.0, 7.0)


def airport(chosen):
    """A runway as long as the largest aeroplane needs (Littlechild and Owen, 1973)."""
    return max((COSTS[i] for i in chosen), default=0.0)


AIRPORT_VALUES = [1 / 4, 1 / 4 + 1 / 3, 1 / 4 + 1 / 3 + 2 / 2, 1 / 4 + 1 / 3 + 2 / 2 + 3]


def gloves(chosen):
    """Client 0 owns a left glove, 1 and 2 a right one each; pairs are worth 1."""
    return float(0 in chosen and len(chosen) > 1)


def majority(chosen):
    return float(len(chosen) >= 3)


def additive(chosen):
    return 3.0 + sum(i + 1.0 for i in chosen)


GAMES = {
    "airport": (airport, AIRPORT_VALUES),
    "gloves": (gloves, [2 / 3, 1 / 6, 1 / 6]),
    "majority of five": (majority, [1 / 5] * 5),
    "additive": (additive, [1, 2, 3, 4, 5, 6]),
}
every_game = pytest.mark.parametrize(("game", "values"), GAMES.values(), ids=GAMES)
estimators = pytest.mark.parametrize("estimate", [truncated_shapley, gtg_shapley])


class Counted:
    def __init__(self, game):
        self.game, self.asked = game, []

    def __call__(self, chosen):
        self.asked.append(chosen)
        return self.game(chosen)


@every_game
def test_exact_values(game, values):
    assert exact_shapley(game, len(values)) == pytest.approx(values)


@every_game
@estimators
def test_estimates_come_close(estimate, game, values):
    found = estimate(game, len(values), orders=3000, tolerance=0, rng=1, **_to_the_end(estimate))
    assert found == pytest.approx(values, abs=0.08 * max(values))


def _to_the_end(estimate):
    return {"converged": 0} if estimate is gtg_shapley else {}


def test_exact_asks_for_every_set_once():
    game = Counted(additive)
    exact_shapley(game, 10)
    assert len(game.asked) == len(set(game.asked)) == 2**10
    assert all(list(chosen) == sorted(chosen) for chosen in game.asked)


@given(st.lists(st.floats(-5, 5), min_size=8, max_size=8))
def test_exact_values_share_out_the_whole_gain(worth):
    table = dict(enumerate(worth))

    def game(chosen):
        return table[sum(1 << i for i in chosen)]

    assert exact_shapley(game, 3).sum() == pytest.approx(worth[7] - worth[0], abs=1e-9)


def test_individual_and_leave_one_out():
    assert individual(additive, 3).tolist() == [1, 2, 3]
    assert leave_one_out(additive, 3).tolist() == [1, 2, 3]
    assert individual(gloves, 3).tolist() == [0, 0, 0]
    assert leave_one_out(gloves, 3).tolist() == [1, 0, 0]
    assert leave_one_out(airport, 4).tolist() == [0, 0, 0, 3]


@estimators
def test_estimates_share_out_the_whole_gain_without_truncation(estimate):
    found = estimate(airport, 4, orders=7, tolerance=0, rng=0)
    assert found.sum() == pytest.approx(7)


@estimators
def test_the_same_seed_gives_the_same_values_and_no_set_is_asked_for_twice(estimate):
    game = Counted(airport)
    first = estimate(game, 4, orders=50, rng=5)
    assert len(game.asked) == len(set(game.asked))
    assert (first == estimate(airport, 4, orders=50, rng=5)).all()


@estimators
def test_truncation_saves_questions_where_little_is_left(estimate):
    def saturated(chosen):
        return 1 - 0.5 ** (8 * len(chosen))

    short, full = Counted(saturated), Counted(saturated)
    estimate(short, 12, orders=24, tolerance=0.05, rng=0)
    estimate(full, 12, orders=24, tolerance=0, rng=0)
    assert len(short.asked) < len(full.asked) / 3


def test_gtg_puts_everybody_first_equally_often():
    # Only being first pays, so one sweep is exact where random orders are not.
    def first_only(chosen):
        return float(len(chosen) > 0)

    assert gtg_shapley(first_only, 8, orders=8, rng=0) == pytest.approx([1 / 8] * 8)
    assert truncated_shapley(first_only, 8, orders=8, rng=0).std() > 0


def test_gtg_pays_nothing_for_a_round_that_changes_little():
    assert gtg_shapley(lambda chosen: 0.001 * len(chosen), 4, between=0.01).tolist() == [0] * 4


def test_gtg_stops_when_values_stand_still():
    calls = []

    def game(chosen):
        calls.append(chosen)
        return additive(chosen)

    gtg_shapley(game, 12, orders=10**6, tolerance=0, rng=0)  # would take minutes to the end
    assert len(set(calls)) < 3000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exact_shapley(additive, 11), "clients must be at most 10, got 11"),
        (lambda: exact_shapley(additive, 0), "clients must be at least 1, got 0"),
        (lambda: individual(additive, 0), "clients must be at least 1, got 0"),
        (lambda: leave_one_out(additive, 0), "clients must be at least 1, got 0"),
        (lambda: truncated_shapley(additive, 3, orders=0), "orders must be at least 1, got 0"),
        (lambda: truncated_shapley(additive, 3, tolerance=-1), "tolerance must be at least 0"),
        (lambda: gtg_shapley(additive, 3, between=-1), "between must be at least 0, got -1"),
        (lambda: gtg_shapley(additive, 3, converged=-1), "converged must be at least 0, got -1"),
    ],
)
def test_bad_settings_name_the_rule_and_the_value(call, message):
    with pytest.raises(SettingError, match=message):
        call()
