import numpy as np
import pytest

from fedmerit import Contributions, Evidence, Flag, Kind, Pairs, Watch
from fedmerit.errors import InvalidInputError, SettingError


def contributions(z, flags=None, explained=None):
    k = len(z)
    evidence = None
    if explained is not None:
        evidence = Evidence(np.ones(k), explained, np.ones(k, dtype=np.int64))
    pairs = Pairs(np.zeros((k, k)), z=z)
    return Contributions.of("conditional", np.zeros(k), flags=flags, pairs=pairs, evidence=evidence)


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


def test_chance_of_ever_flagging_a_weak_worker_is_bounded(rng):
    """At the border of the hypothesis, looking after every one of 60 rounds."""
    runs, ever = 400, 0
    for _ in range(runs):
        log_wealth, highest = 0.0, 0.0
        for _ in range(60):
            delta = 1.5
            log_wealth += delta**2 / 2 - delta * rng.normal(loc=delta)
            highest = max(highest, log_wealth)
        ever += highest >= np.log(1 / 0.05)
    assert ever / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)


def test_false_discoveries_need_stronger_evidence_with_more_clients():
    z = np.full((3, 3), 30.0)
    z[2, :2] = z[:2, 2] = 0.0
    np.fill_diagonal(z, np.nan)
    watch = Watch(rate=0.01)
    rounds = 0
    while not any(verdict.flagged for verdict in watch.verdicts()):
        watch.observe(["a", "b", "rider"], contributions(z))
        rounds += 1
    assert rounds == 2  # each bet of 3 gains exp(4.5) = 90; 300 is needed
    assert watch.verdicts()[0].client == "rider"


def test_flags_given_by_the_scorer_are_kept():
    z = np.full((3, 3), 30.0)
    z[2, :2] = z[:2, 2] = 0.0
    np.fill_diagonal(z, np.nan)
    watch = Watch()
    for _ in range(3):
        watch.observe(["a", "b", "c"], contributions(z, (None, None, Flag(Kind.REVERSED))))
    assert watch.verdicts()[0].flag == Flag(Kind.REVERSED)
    assert watch.verdicts()[0].reason == "reversed"


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
    watch = Watch(rate=0.01)
    for enough in (False, False, True):  # 300 are needed
        watch.observe(["a", "b", "c"], contributions(z, None, explained * 0.5))
        assert not any(verdict.flagged for verdict in watch.verdicts())
        watch.observe(["a", "b", "c"], contributions(z, flags, explained))
        assert watch.verdicts()[0].flagged is enough
    assert watch.verdicts()[0].client == "c"
    assert watch.verdicts()[0].e_value == pytest.approx((1 + 10.9**3 * 0.9**3) / 2)
    assert watch.verdicts()[1].e_value == pytest.approx((1 + 0.9**6) / 2)


def test_bad_arguments_are_refused():
    with pytest.raises(SettingError, match="rate must be less than 1, got 1"):
        Watch(rate=1)
    with pytest.raises(InvalidInputError, match="clients must name every score, 3, got 1"):
        Watch().observe(["a"], contributions(np.zeros((3, 3))))
