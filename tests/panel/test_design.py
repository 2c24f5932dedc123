"""Laws of the design: who judges which halves."""

from collections import Counter

import numpy as np
import pytest

from fedmerit.panel.design import choose_judges, draw_pairs
from tests.panel.games import names


@pytest.mark.parametrize("count", [3, 4, 7, 8, 21])
def test_halves_are_complementary_and_without_the_judge(count):
    clients = names(count)
    for pair in draw_pairs(clients, clients, 3, np.random.default_rng(1)):
        assert pair.judge not in pair.left + pair.right
        assert sorted(pair.left + pair.right) == [c for c in clients if c != pair.judge]
        assert abs(len(pair.left) - len(pair.right)) <= 1


def test_every_client_is_judged_equally_often_and_on_either_side():
    clients = names(9)
    pairs = draw_pairs(clients, clients, 200, np.random.default_rng(2))
    left = Counter(client for pair in pairs for client in pair.left)
    right = Counter(client for pair in pairs for client in pair.right)
    for client in clients:
        assert left[client] + right[client] == 8 * 200
        # Five deviations of a fair coin.
        assert abs(left[client] - right[client]) < 5 * np.sqrt(8 * 200)


def overlap(pairs, clients):
    """The mean squared overlap of different pairs' sides."""
    sides = np.array(
        [[(c in pair.left) - float(c in pair.right) for c in clients] for pair in pairs]
    )
    squares = (sides @ sides.T) ** 2
    return (squares.sum() - np.trace(squares)) / (len(pairs) * (len(pairs) - 1))


def test_questions_of_a_round_overlap_less_than_lots_would():
    clients, rng = names(9), np.random.default_rng(5)
    asked = [overlap(draw_pairs(clients, clients, 1, rng), clients) for _ in range(20)]
    # One judge at a time knows nothing of the others' questions.
    lots = [
        overlap([draw_pairs(clients, [judge], 1, rng)[0] for judge in clients], clients)
        for _ in range(20)
    ]
    assert np.mean(asked) < 0.8 * np.mean(lots)


def test_a_judge_is_asked_what_it_was_not_asked_before():
    clients, rng = names(9), np.random.default_rng(6)
    known, fresh = [], []
    for _ in range(20):
        told = [(pair.left, pair.right) for pair in known]
        known += draw_pairs(clients, clients[:1], 1, rng, asked={clients[0]: told})
        fresh += draw_pairs(clients, clients[:1], 1, rng)
    assert overlap(known, clients) < 0.8 * overlap(fresh, clients)


def test_two_clients_have_nobody_to_compare():
    assert draw_pairs(names(2), names(2), 1, np.random.default_rng(0)) == []


def test_a_judge_need_not_have_sent_an_update():
    (pair,) = draw_pairs(names(4), ["visitor"], 1, np.random.default_rng(0))
    assert sorted(pair.left + pair.right) == names(4)


def test_who_is_kept_out_is_judged_in_turns_one_at_a_time():
    clients, apart = names(10), names(10)[:3]
    pairs = draw_pairs(clients, clients, 2, np.random.default_rng(3), apart=apart)
    seen = Counter()
    for pair in pairs:
        outsiders = set(pair.left + pair.right) & set(apart)
        assert len(outsiders) == 1
        assert set(apart) - {pair.judge} >= outsiders
        seen.update(outsiders)
    assert set(seen) == set(apart)
    assert max(seen.values()) - min(seen.values()) <= 4


def test_the_least_heard_judge_first():
    chosen = choose_judges(
        names(5), 2, {"c00": 3, "c01": 1, "c02": 3, "c03": 0, "c04": 2}, np.random.default_rng(0)
    )
    assert chosen == ["c01", "c03"]


def test_lots_decide_among_judges_who_were_heard_as_often():
    rng = np.random.default_rng(0)
    drawn = Counter(name for _ in range(300) for name in choose_judges(names(6), 3, {}, rng))
    assert set(drawn) == set(names(6))
    assert min(drawn.values()) > 100
