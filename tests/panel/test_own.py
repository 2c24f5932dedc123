"""A judge's word beside its own work: who contradicts itself, and what that costs whom."""

from dataclasses import replace

import numpy as np
import pytest

from fedmerit.panel import Bench, Book, Panel
from fedmerit.panel.book import rows_of
from fedmerit.panel.estimate import estimate
from fedmerit.panel.harm import harmful
from fedmerit.panel.own import bet_on_own_word, own_agreement, own_voices
from tests.panel.games import additive_rounds, names, worth_of

COUNT = 12


def rounds_with_work(rng, *, rounds=8, pairs=4, noise=1.0, taste=3.0):
    """Judges that share almost nothing, whose own updates tell their answers, give or take."""
    found = additive_rounds(
        np.linspace(-0.05, 0.05, COUNT),
        rng,
        rounds=rounds,
        pairs=pairs,
        noise=0.005,
        taste=0.05 * taste,
    )
    told = []
    for heard in found:
        size = float(np.std(heard.differences))
        work = np.array(heard.differences) + noise * size * rng.normal(size=len(heard.pairs))
        told.append(replace(heard, expected=tuple(7.0 * work)))
    return tuple(told)


def lied(rounds, tell):
    """The same rounds with other answers: `tell(judge, said, left, right)`."""
    return tuple(
        replace(
            heard,
            differences=tuple(
                tell(judge, said, left, right)
                for (judge, left, right), said in zip(heard.pairs, heard.differences, strict=True)
            ),
        )
        for heard in rounds
    )


def by_name(rows, values):
    return dict(zip(rows.people, values, strict=True))


def bet_through(rounds):
    wealth = {}
    for number, heard in enumerate(rounds):
        wealth = bet_on_own_word(wealth, heard, rounds[:number])
        yield wealth


def test_what_is_expected_is_how_much_further_one_group_goes_the_judges_way():
    updates = np.array([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]])
    bench = Bench(Panel(), 1, ("a", "b", "c", "d"), updates, np.ones(4), np.zeros(2), np.ones(2))
    bench.ask(["a", "visitor"], Book(), np.random.default_rng(0))
    heard = bench.read({key: 0.5 for key, *_ in bench}).heard
    for (judge, left, right), expected in zip(heard.pairs, heard.expected, strict=True):
        gap = updates[list(left)].mean(axis=0) - updates[list(right)].mean(axis=0)
        assert expected == pytest.approx(gap @ [1.0, 0.0] if judge == "a" else 0.0)


def test_an_update_that_is_too_large_to_multiply_expects_nothing():
    updates = np.full((4, 2), 3e38, dtype=np.float32)
    bench = Bench(Panel(), 1, tuple("abcd"), updates, np.ones(4), np.zeros(2), np.ones(2))
    bench.ask(["a"], Book(), np.random.default_rng(0))
    assert bench.read({key: 0.5 for key, *_ in bench}).heard.expected == ()


@pytest.mark.parametrize("share", [1, 3, 5])
def test_who_lies_about_groups_only_has_no_voice_though_honest_judges_share_nothing(share):
    liars = set(names(COUNT)[::2][:share])
    rounds = rounds_with_work(np.random.default_rng(share))
    told = lied(rounds, lambda judge, said, *_: -said if judge in liars else said)
    rows = rows_of(told)
    voice = by_name(rows, own_voices(rows))
    assert max(voice[name] for name in liars) < 0.05
    assert np.mean([voice[name] for name in voice if name not in liars]) > 0.75


def test_praise_for_friends_counts_less_than_it_adds():
    """A worth of friends moves by less than a third of what it does with one voice each."""
    friends = set(names(COUNT)[:4])
    clients = names(COUNT)
    rounds = rounds_with_work(np.random.default_rng(5))
    size = 3 * np.std([said for heard in rounds for said in heard.differences])

    def praise(judge, said, left, right):
        more = sum(clients[place] in friends for place in left)
        more -= sum(clients[place] in friends for place in right)
        return said + size * np.sign(more) if judge in friends else said

    told = lied(rounds, praise)
    honest = worth_of(estimate(rounds, trusted=False), COUNT)[:4].mean()
    plain, heeded = (
        worth_of(estimate(told, trusted=trusted), COUNT)[:4].mean() - honest
        for trusted in (False, True)
    )
    assert plain > 0
    assert abs(heeded) < plain / 3


def test_scales_of_rounds_and_updates_do_not_matter():
    rounds = rounds_with_work(np.random.default_rng(6))
    scaled = tuple(
        replace(
            heard,
            differences=tuple(number * said for said in heard.differences),
            expected=tuple(work / number for work in heard.expected),
        )
        for number, heard in enumerate(rounds, start=1)
    )
    first, second = (own_agreement(rows_of(told)) for told in (rounds, scaled))
    np.testing.assert_allclose(first, second)


def test_without_work_nobody_loses_a_voice_and_nothing_is_bet():
    rounds = additive_rounds(np.linspace(-0.05, 0.05, COUNT), np.random.default_rng(7), noise=0.1)
    assert set(own_voices(rows_of(rounds))) == {1.0}
    assert list(bet_through(rounds))[-1] == {}


def test_who_contradicts_itself_is_named_in_some_rounds_and_nobody_else():
    liars = set(names(COUNT)[:3])
    rounds = rounds_with_work(np.random.default_rng(8), rounds=12, noise=0.5)
    told = lied(rounds, lambda judge, said, *_: -said if judge in liars else said)
    wealth = list(bet_through(told))
    assert harmful(wealth[0], 0.01) == []
    assert set(harmful(wealth[-1], 0.01)) == liars


def test_a_majority_that_contradicts_itself_is_not_named():
    liars = set(names(COUNT)[:7])
    rounds = rounds_with_work(np.random.default_rng(9), rounds=12, noise=0.5)
    told = lied(rounds, lambda judge, said, *_: -said if judge in liars else said)
    assert harmful(list(bet_through(told))[-1], 0.01) == []


@pytest.mark.slow
def test_a_word_that_has_nothing_to_do_with_the_work_is_named_at_the_stated_rate():
    """Two judges answer at random, the edge of what must not be named."""
    named, runs, odd = 0, 150, set(names(COUNT)[:2])
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        rounds = rounds_with_work(rng, rounds=30, noise=0.5)
        told = lied(rounds, lambda j, said, *_, r=rng: 0.1 * r.normal() if j in odd else said)
        named += any(set(harmful(wealth, 0.05)) & odd for wealth in bet_through(told))
    assert named / runs < 0.05


def test_evidence_of_both_kinds_is_the_mean_of_two_e_values():
    book = Book(harm={"a": np.log(9.0)}, contrary={"b": np.log(5.0)})
    assert book.against == pytest.approx({"a": np.log(5.0), "b": np.log(3.0)})
