from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit import Flag, Kind, Watch
from fedmerit.errors import InvalidInputError, SettingError
from fedmerit.evidence.bets import Wealth, bet, named
from fedmerit.evidence.limits import LIMITS
from fedmerit.types import Contributions, Evidence
from tests.evidence.cohorts import result_from as contributions


def drawn_z(means, rng):
    """Pairs agree by the smaller of their clients' means, with unit spread."""
    k = len(means)
    z = np.minimum.outer(means, means) + rng.normal(size=(k, k))
    z = np.triu(z, 1)
    z = z + z.T
    np.fill_diagonal(z, np.nan)
    return z


def test_riders_are_flagged_and_workers_are_not(rng):
    watch = Watch(rate=0.01)
    names = [f"client {i}" for i in range(8)]
    for _ in range(5):
        watch.observe(names, contributions(drawn_z(np.array([30.0] * 6 + [0, 0]), rng)))
    flagged = {verdict.client for verdict in watch.verdicts() if verdict.flagged}
    assert flagged == {"client 6", "client 7"}
    assert {v.flag for v in watch.verdicts()} == {None, Flag(Kind.INDEPENDENT)}
    assert {v.reason for v in watch.verdicts() if v.flagged} == {"independent of every peer"}


def evidence_of(agreement, rng, explained=0.0):
    """Twenty members who agree by nine deviations, and as many others who agree by so much."""
    ones, inside = np.ones(40), np.arange(40) < 20
    return Evidence(
        agreement=np.where(inside, 9.0, agreement) + rng.normal(size=40),
        typical=9 * ones,
        least=3 * ones,
        deviation=ones,
        explained=explained * ones,
        replayed=np.zeros(40, dtype=bool),
        copies=ones,
        members=inside,
        way=np.zeros(40, dtype=np.int8),
        power=np.zeros(40),
    )


def test_who_agrees_much_less_but_always_is_not_named_for_long_and_who_never_does_is(rng):
    names = [str(number) for number in range(40)]
    named = {}
    for agreement in (0.0, 1.5):
        watch = Watch(rate=0.01)
        for _ in range(25):
            result = Contributions.of(
                "conditional", np.zeros(40), evidence=evidence_of(agreement, rng)
            )
            watch.observe(names, result)
        named[agreement] = {verdict.client for verdict in watch.verdicts() if verdict.flagged}
    assert len(named[0.0]) >= 18
    assert named[1.5] == set()


def test_agreement_of_long_ago_speaks_for_nobody(rng):
    watch, names = Watch(rate=0.01), [str(number) for number in range(40)]
    for number in range(60):
        agreement = 9.0 if number < 20 else 0.0
        result = Contributions.of("conditional", np.zeros(40), evidence=evidence_of(agreement, rng))
        watch.observe(names, result)
    named = {int(verdict.client) for verdict in watch.verdicts() if verdict.flagged}
    assert len(named) >= 18
    assert min(named) >= 20


def test_nothing_is_bet_when_the_cohort_does_not_agree(rng):
    watch = Watch()
    for _ in range(50):
        watch.observe(["a", "b", "c"], contributions(drawn_z(np.zeros(3), rng)))
    assert not any(verdict.flagged for verdict in watch.verdicts())


def test_rounds_without_a_client_do_not_count_against_it(rng):
    watch = Watch()
    for t in range(20):
        present = ["a", "b", "c", "late"] if t == 19 else ["a", "b", "c"]
        watch.observe(present, contributions(drawn_z(np.full(len(present), 30.0), rng)))
    late = next(v for v in watch.verdicts() if v.client == "late")
    assert late.rounds == 1
    assert late.e_value < 1


@pytest.mark.slow
@pytest.mark.parametrize("least", [2.0, 5.0, 12.0])
def test_chance_of_ever_flagging_a_weak_worker_is_bounded(least, rng):
    """At the border of the hypothesis, looking after every one of 60 rounds."""
    clients, ever = 1000, np.zeros(1000)
    names, known = [str(c) for c in range(clients)], {}
    ones = np.ones(clients)
    for _ in range(60):
        evidence = Evidence(
            agreement=least + rng.normal(size=clients),
            typical=3 * least * ones,
            least=least * ones,
            deviation=ones.copy(),
            explained=0 * ones,
            replayed=np.zeros(clients, dtype=bool),
            copies=ones.copy(),
            members=np.ones(clients, dtype=bool),
            way=np.zeros(clients, dtype=np.int8),
            power=np.zeros(clients),
        )
        known = bet(known, names, Contributions.of("", 0 * ones, evidence=evidence))
        ever = np.maximum(ever, [known[name].independent for name in names])
    assert (ever >= np.log(1 / 0.05)).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / clients)


def test_who_agrees_significantly_is_not_bet_against():
    """However little that is beside the others: the typical client here has 80."""
    z = np.full((6, 6), 80.0)
    z[5, :5] = z[:5, 5] = 9.0
    np.fill_diagonal(z, np.nan)
    watch = Watch()
    for _ in range(20):
        watch.observe(list("abcdef"), contributions(z, parameters=1_000_000_000))
    assert max(verdict.e_value for verdict in watch.verdicts()) <= 1


def test_false_discoveries_need_stronger_evidence_with_more_clients():
    z = np.full((4, 4), 30.0)
    z[3, :3] = z[:3, 3] = 0.0
    np.fill_diagonal(z, np.nan)
    watch = Watch(rate=0.01)
    watch.observe(["a", "b", "c", "rider"], contributions(z))
    assert not any(verdict.flagged for verdict in watch.verdicts())
    watch.observe(["a", "b", "c", "rider"], contributions(z))
    assert watch.verdicts()[0].flagged  # each bet multiplies by 90.1; 800 is needed
    assert watch.verdicts()[0].client == "rider"


def test_two_who_agree_are_no_yardstick_for_a_third():
    z = np.full((3, 3), 30.0)
    z[2, :2] = z[:2, 2] = 0.0
    np.fill_diagonal(z, np.nan)
    watch = Watch(rate=0.01)
    for _ in range(20):
        watch.observe(["a", "b", "c"], contributions(z))
    assert not any(verdict.flagged for verdict in watch.verdicts())


def test_flags_given_by_the_scorer_are_kept():
    z = np.full((4, 4), 30.0)
    z[3, :3] = z[:3, 3] = 0.0
    np.fill_diagonal(z, np.nan)
    watch = Watch()
    for _ in range(3):
        watch.observe(list("abcd"), contributions(z, (None, None, None, Flag(Kind.CLIQUE))))
    assert watch.verdicts()[0].flag == Flag(Kind.CLIQUE)
    assert watch.verdicts()[0].reason == "agrees only with a clique"


def test_agreement_is_measured_with_the_cohort_only():
    z = np.zeros((5, 5))
    z[:3, :3] = 40.0
    z[3, 4] = z[4, 3] = 90.0
    np.fill_diagonal(z, np.nan)
    watch = Watch()
    for _ in range(3):
        watch.observe(list("abcde"), contributions(z))
    assert {v.client for v in watch.verdicts() if v.flagged} == {"d", "e"}


def test_replays_are_evidence_even_where_nobody_agrees():
    z, explained = np.zeros((3, 3)), np.array([0.1, 0.2, 0.7])
    np.fill_diagonal(z, np.nan)
    flags = (None, None, Flag(Kind.EXPLAINED, "70%"))
    watch, wealth = Watch(rate=0.01), [1.0, 1.0, 1.0]
    for number in range(1, 7):
        replays = number % 2 == 0
        wealth[1] = after(wealth[1], 0.9, number)
        wealth[2] = after(wealth[2], 10.9 if replays else 0.9, number)
        watch.observe(["a", "b", "c"], contributions(z, flags if replays else None, explained))
        enough = 2 + wealth[2] >= 3 * 300  # nothing is bet on agreement or direction
        assert watch.verdicts()[0].flagged is enough
        assert enough is (number == 6)
    assert watch.verdicts()[0].client == "c"
    assert watch.verdicts()[0].e_value == pytest.approx((2 + wealth[2]) / 3)
    assert watch.verdicts()[1].e_value == pytest.approx((2 + wealth[1]) / 3)


def after(wealth, factor, number):
    """A wealth after its n-th round, of which it kept a part back."""
    kept = 0.1 / number
    return (wealth - kept) * factor + kept


def replayed_rounds(*happened):
    """What the second bet has come to after rounds in which a client replayed, or did not."""
    z, known = np.full((4, 4), np.nan), {}
    for one in happened:
        evidence = replace(contributions(z).evidence, replayed=np.array([one] + [False] * 3))
        known = bet(known, list("abcd"), Contributions.of("", np.ones(4), evidence=evidence))
    return np.exp(known["a"].replayed)


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_a_wealth_is_the_mean_of_bets_that_begin_in_different_rounds(happened):
    """The first has nine tenths of it, the n-th 0.1 / (n (n - 1)); who waits has lost nothing."""
    total = 0.1 / len(happened)
    for first in range(len(happened)):
        won = np.prod([10.9 if one else 0.9 for one in happened[first:]])
        total += won * (0.1 / (first * (first + 1)) if first else 0.9)
    assert replayed_rounds(*happened) == pytest.approx(total)


def test_a_bet_is_fair_whatever_came_before():
    """One in a hundred times 10.9 and 99 times 0.9 is no more than 1."""
    for before in ((), (True,), (False,) * 30, (True, False, True)):
        then = [replayed_rounds(*before, one) for one in (True, False)]
        now = replayed_rounds(*before) if before else 1.0
        assert (then[0] + 99 * then[1]) / 100 == pytest.approx(now)


@pytest.mark.parametrize(("honest", "needed"), [(0, 4), (40, 6), (100, 8), (1000, 10)])
def test_work_of_long_ago_buys_no_rest(honest, needed):
    """It costs a replayer the logarithm of its rounds: each of its replays multiplies by 10.9."""
    names = [str(client) for client in range(20)]
    wealth = Wealth(replayed=np.log(after_honest(honest)), rounds=honest)
    known, rounds = dict.fromkeys(names, wealth), 0
    evidence = contributions(np.full((20, 20), np.nan)).evidence
    evidence = replace(evidence, replayed=np.arange(20) == 0)
    while not named(known, 0.01):
        known = bet(known, names, Contributions.of("", np.ones(20), evidence=evidence))
        rounds += 1
    assert named(known, 0.01) == ["0"]
    assert rounds == needed


def after_honest(rounds):
    wealth = 1.0
    for number in range(1, rounds + 1):
        wealth = after(wealth, 0.9, number)
    return wealth


def test_bad_arguments_are_refused():
    with pytest.raises(SettingError, match="rate must be less than 1, got 1"):
        Watch(rate=1)
    with pytest.raises(InvalidInputError, match="clients must name every score, 3, got 1"):
        Watch().observe(["a"], contributions(np.zeros((3, 3))))


@pytest.mark.parametrize("typical", [5.0, 7.0, 9.0])
def test_the_stake_is_kellys_for_the_power_of_the_round(rng, typical):
    """Of a bet that pays 1 / q, and comes about with chance p, (p - q) / (1 - q) grows fastest."""
    result = contributions(drawn_z(np.full(6, typical), rng))
    evidence, q = result.evidence, LIMITS.honest_event
    normal = NormalDist()
    below = np.minimum(
        evidence.least / evidence.deviation - normal.inv_cdf(1 - q), LIMITS.significant
    )
    power = np.array([normal.cdf(value) for value in below])
    stakes = np.clip((power - q) / (1 - q), 0, LIMITS.largest_stake)
    kept = evidence.agreement / evidence.deviation >= below
    assert kept.any()
    after = bet({}, list("abcdef"), result)
    for row in np.flatnonzero(kept):
        expected = 0.1 + 0.9 * (1 - stakes[row])  # a tenth is kept back in the first round
        assert after["abcdef"[row]].independent == pytest.approx(np.log(expected))
