"""Laws of the estimates: known games come back, errors are right, minorities are bounded."""

import numpy as np
import pytest

from fedmerit.intervals import student_quantile
from fedmerit.panel.book import HeardRound
from fedmerit.panel.estimate import estimate
from tests.panel.games import additive_rounds, names, worth_of

WORTH = np.array([0.05, 0.03, 0.02, 0.01, 0.0, -0.01, -0.04, -0.06])


@pytest.mark.parametrize("weights", [None, [1, 2, 3, 4, 5, 6, 7, 8]])
@pytest.mark.parametrize("trusted", [True, False])
def test_an_additive_game_without_noise_comes_back_exactly(weights, trusted):
    rounds = additive_rounds(WORTH, np.random.default_rng(1), weights=weights)
    found = estimate(rounds, trusted=trusted)
    np.testing.assert_allclose(worth_of(found, 8), WORTH - WORTH.mean(), atol=1e-6)
    np.testing.assert_allclose(found.error, 0, atol=1e-6)
    np.testing.assert_allclose(found.gains, 0.02)


def test_two_clients_and_a_visitor_by_hand():
    """One comparison: the worth of two clients differs by what the judge said."""
    heard = HeardRound(1, ("a", "b"), (1.0, 1.0), (("v", (0,), (1,)),), (0.3,), {"v": 0.1})
    found = estimate((heard,))
    assert found.of("a")[0] - found.of("b")[0] == pytest.approx(0.3)
    assert found.gains[0] == pytest.approx(0.1)
    assert np.isnan(found.of("a")[1])
    assert found.of("nobody")[0] == 0


@pytest.mark.slow
def test_estimates_are_unbiased():
    sums = np.zeros(8)
    runs = 150
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        rounds = additive_rounds(WORTH, rng, rounds=5, pairs=2, noise=0.02)
        sums += worth_of(estimate(rounds), 8)
    np.testing.assert_allclose(sums / runs, WORTH - WORTH.mean(), atol=0.004)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "taste"), [(0.02, 0.0), (0.005, 0.02)])
def test_intervals_cover_what_they_should(noise, taste):
    """With tastes, the truth is what the judges who were drawn from a population say on average."""
    inside = trials = 0
    for seed in range(120):
        rng = np.random.default_rng(1000 + seed)
        rounds = additive_rounds(WORTH, rng, rounds=6, pairs=2, noise=noise, taste=taste)
        found = estimate(rounds)
        off = np.abs(worth_of(found, 8) - (WORTH - WORTH.mean()))
        width = student_quantile(0.95, found.freedom) * np.array(
            [found.of(name)[1] for name in names(8)]
        )
        inside += int((off <= width).sum())
        trials += 8
    assert 0.9 < inside / trials <= 0.995


def test_a_judge_has_no_say_in_its_own_case():
    """What a client says as a judge moves its own worth, given the voices, by nothing at all."""
    rng = np.random.default_rng(5)
    honest = additive_rounds(WORTH, rng, pairs=2, noise=0.01)
    lied = additive_rounds(
        WORTH,
        np.random.default_rng(5),
        pairs=2,
        noise=0.01,
        lie=lambda judge, said, *_: -said if judge == "c03" else said,
    )
    before, after = (estimate(rounds, trusted=False) for rounds in (honest, lied))
    gauge = [
        np.mean([found.of(name)[0] for name in names(8) if name != "c03"])
        for found in (before, after)
    ]
    # Fits without c03 are the same; its place among the others is theirs to say.
    assert before.of("c03")[0] == pytest.approx(after.of("c03")[0], abs=1e-12)
    assert abs(gauge[0] - gauge[1]) < 0.01


def test_a_loud_minority_moves_a_value_by_a_bounded_amount():
    """However loud, two of ten judges who praise each other move a worth by no more."""
    worth = np.zeros(10)
    friends = {"c00", "c01"}
    clients = names(10)

    def praise(size):
        def lie(judge, said, *groups):
            if judge not in friends or not groups:
                return said
            left, right = ({clients[place] for place in group} for group in groups)
            return said + size * (len(left & friends) - len(right & friends))

        return lie

    moved = []
    for size in (0.1, 1.0, 1000.0):
        rng = np.random.default_rng(7)
        rounds = additive_rounds(worth, rng, pairs=4, noise=0.01, lie=praise(size))
        moved.append(worth_of(estimate(rounds), 10)[0])
    assert moved[2] == pytest.approx(moved[1], abs=1e-4)
    assert moved[2] < 0.02


def test_the_order_of_clients_does_not_matter():
    rng = np.random.default_rng(3)
    rounds = additive_rounds(WORTH, rng, noise=0.01)
    turned = tuple(
        HeardRound(r.round, r.clients, r.weights, r.pairs[::-1], r.differences[::-1], r.gains)
        for r in rounds
    )
    first, second = estimate(rounds), estimate(turned)
    for name in names(8):
        assert first.of(name)[0] == pytest.approx(second.of(name)[0], abs=1e-5)


def test_clients_who_come_and_go_are_compared_through_the_others():
    rng = np.random.default_rng(9)
    worth = dict(zip(names(12), np.linspace(-0.05, 0.05, 12), strict=True))
    rounds = []
    for number in range(40):
        there = sorted(rng.choice(names(12), 6, replace=False).tolist())
        (one,) = additive_rounds([worth[name] for name in there], rng, rounds=1, pairs=2)
        back = dict(zip(names(6), there, strict=True))
        pairs = tuple((back[judge], left, right) for judge, left, right in one.pairs)
        gains = {back[judge]: gain for judge, gain in one.gains.items()}
        rounds.append(HeardRound(number, tuple(there), one.weights, pairs, one.differences, gains))
    found = estimate(tuple(rounds))
    np.testing.assert_allclose(worth_of(found, 12), list(worth.values()), atol=1e-5)


def test_differences_are_reliable_as_far_as_they_would_come_back():
    exact = estimate(additive_rounds(WORTH, np.random.default_rng(1), noise=0.0))
    found = [
        np.mean(
            [
                estimate(
                    additive_rounds(WORTH, np.random.default_rng(seed), noise=noise)
                ).reliability
                for seed in range(5)
            ]
        )
        for noise in (0.002, 0.02, 0.2)
    ]
    assert exact.reliability > 0.99
    assert 1 > found[0] > found[1] > found[2] > 0


def test_equals_are_hardly_told_apart():
    found = [
        estimate(additive_rounds(np.zeros(8), np.random.default_rng(seed), noise=0.02)).reliability
        for seed in range(10)
    ]
    assert np.mean(found) < 0.5


def test_who_has_no_error_is_not_reliable():
    rounds = additive_rounds(WORTH, np.random.default_rng(1), judges=["c00"], pairs=4)
    assert estimate(rounds).reliability == 0


def test_nobody_is_heard_nobody_is_worth_anything():
    found = estimate(())
    assert found.people == ()
    assert found.of("a")[0] == 0
