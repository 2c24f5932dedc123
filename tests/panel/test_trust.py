"""Liars on the bench: who has a voice, and what values are still worth beside them."""

import numpy as np
import pytest

from fedmerit.panel.book import rows_of
from fedmerit.panel.estimate import estimate
from fedmerit.panel.trust import voices
from tests.panel.games import additive_rounds, names, worth_of

WORTH = np.linspace(-0.05, 0.05, 20)
SEEDS = range(2)


def voice_by_name(rounds):
    rows = rows_of(rounds)
    return dict(zip(rows.people, voices(rows), strict=True))


def contrary(liars):
    return lambda judge, said, *_: -said if judge in liars else said


def contrary_but_for_the_progress(liars):
    return lambda judge, said, *groups: -said if judge in liars and groups else said


def at_random(liars, rng, size=0.02):
    return lambda judge, said, *_: size * float(rng.normal()) if judge in liars else said


def correlation(rounds):
    return float(np.corrcoef(worth_of(estimate(rounds), 20), WORTH)[0, 1])


def test_a_panel_of_one_mind_keeps_every_voice():
    for seed in SEEDS:
        rounds = additive_rounds(WORTH, np.random.default_rng(seed), rounds=5, noise=0.01)
        assert min(voice_by_name(rounds).values()) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lies", "share"),
    [
        *((contrary, share) for share in (2, 6, 9)),
        *((contrary_but_for_the_progress, share) for share in (2, 6)),
    ],
)
def test_who_says_the_opposite_has_no_voice(lies, share):
    liars = set(names(20)[::2][:share])
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        rounds = additive_rounds(WORTH, rng, pairs=4, noise=0.005, lie=lies(liars))
        voice = voice_by_name(rounds)
        assert max(voice[name] for name in liars) < 0.05
        assert min(voice[name] for name in voice if name not in liars) > 0.8
        assert correlation(rounds) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("share", [2, 6, 9])
def test_noise_costs_precision_and_no_more(share):
    liars = set(names(20)[:share])
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        lie = at_random(liars, np.random.default_rng(seed + 50))
        rounds = additive_rounds(WORTH, rng, pairs=4, noise=0.005, lie=lie)
        voice = voice_by_name(rounds)
        assert min(voice[name] for name in voice if name not in liars) > 0.8
        assert correlation(rounds) > 0.9


def test_judges_of_two_minds_about_groups_all_keep_their_voice():
    """Half of them want the opposite of the rest: nobody can say who is right."""
    liars = set(names(20)[::2])
    lie = contrary_but_for_the_progress(liars)
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        rounds = additive_rounds(WORTH, rng, pairs=4, noise=0.005, lie=lie)
        voice = voice_by_name(rounds)
        assert np.mean([voice[name] for name in liars]) > 0.9
        assert np.mean([voice[name] for name in voice if name not in liars]) > 0.9


def test_a_voice_is_never_negative_nor_above_one():
    liars = set(names(20)[:9])
    rng = np.random.default_rng(0)
    rounds = additive_rounds(WORTH, rng, rounds=2, noise=0.05, lie=contrary(liars))
    found = np.array(list(voice_by_name(rounds).values()))
    assert found.min() >= 0
    assert found.max() <= 1


def test_who_never_judged_has_no_voice_and_two_judges_keep_theirs():
    rounds = additive_rounds(WORTH, np.random.default_rng(0), judges=["c00", "c01"])
    voice = voice_by_name(rounds)
    assert voice["c00"] == voice["c01"] == 1
    assert voice["c07"] == 0


def test_constant_answers_break_nothing():
    rounds = additive_rounds(WORTH, np.random.default_rng(0), lie=lambda *_: 0.0)
    found = estimate(rounds)
    np.testing.assert_allclose(found.worth, 0, atol=1e-9)
    assert set(voice_by_name(rounds).values()) == {1.0}
