"""Values decoded from sums of groups: the server never holds a single update."""

import numpy as np
import pytest

from fedmerit.errors import InvalidInputError
from fedmerit.panel import Book, Panel, estimate
from fedmerit.panel.sums import by_member, draw_groups, own_groups, seat_groups
from tests.panel.games import names, worth_of

COUNT = 12
WORTH = np.linspace(-0.05, 0.06, COUNT)


def play(rounds, noise=0.0, pairs=2, size=3, seed=0):
    """A federation whose model is one number; the server sees the means of groups."""
    rng = np.random.default_rng(seed)
    clients, book = names(COUNT), []
    weights = dict(zip(clients, rng.uniform(1, 3, COUNT), strict=True))
    for number in range(1, rounds + 1):
        groups = draw_groups(clients, size, rng)
        totals = np.array([sum(weights[c] for c in members) for members in groups.values()])
        means = np.array(
            [
                [sum(weights[c] * WORTH[clients.index(c)] for c in members) / total]
                for members, total in zip(groups.values(), totals, strict=True)
            ]
        )
        before = np.array([0.5])
        after = before + totals @ means / totals.sum()
        bench = seat_groups(Panel(pairs=pairs), number, groups, means, totals, before, after)
        bench.ask(clients, Book(), rng, own=own_groups(groups))
        said = {key: float(m[0]) + noise * float(rng.normal()) for key, _, m, _ in bench}
        for pair in bench.pairs:
            assert own_groups(groups)[pair.judge] not in pair.left + pair.right
        book.append(by_member(bench.read(said).heard, groups, weights))
    return tuple(book)


def test_members_are_told_apart_over_rounds_exactly_without_noise():
    found = worth_of(estimate(play(30)), COUNT)
    np.testing.assert_allclose(found, WORTH - WORTH.mean(), atol=1e-4)


def test_with_noise_order_is_found_with_more_rounds():
    errors = [
        np.mean(
            [
                np.abs(worth_of(estimate(play(rounds, 0.01, seed=s)), COUNT) - WORTH + WORTH.mean())
                for s in range(3)
            ]
        )
        for rounds in (5, 40)
    ]
    assert errors[1] < errors[0] / 2


def test_groups_are_disjoint_hold_everybody_and_hide_one():
    groups = draw_groups(names(20), 4, np.random.default_rng(1))
    members = [client for part in groups.values() for client in part]
    assert sorted(members) == names(20)
    assert min(map(len, groups.values())) >= 4


@pytest.mark.parametrize(
    ("count", "size", "message"),
    [
        (12, 1, "size must be at least 2, got 1"),
        (8, 3, "clients must fill 3 groups of 3, got 8 clients"),
    ],
)
def test_groups_that_would_not_do(count, size, message):
    with pytest.raises(InvalidInputError, match=message):
        draw_groups(names(count), size, np.random.default_rng(0))
