from dataclasses import replace

import numpy as np
import pytest

from fedmerit import Flag, Kind, Watch
from fedmerit.comparison import Changes, changes
from fedmerit.evidence.bets import Wealth, bet
from fedmerit.evidence.cohort import Ways, ways_of
from fedmerit.types import Contributions
from tests.evidence.cohorts import result_from


def cosines_of(updates):
    unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    return unit @ unit.T


def points_against(cosine, members):
    """Who does, where everybody who is present is a member or may be one."""
    return ways_of(cosine, members, np.ones(len(members), dtype=bool)).against


EVERYBODY = np.ones(12, dtype=bool)


def a_step_later(reports, rng, answers, noise=0.5):
    """Return the cosines of reports, and of their changes where each answers a step so far."""
    step = rng.normal(size=reports.shape[1])
    change = np.outer(answers, step) + noise * rng.normal(size=reports.shape)
    return cosines_of(reports), changed(cosines_of(change))


def changed(whole, turned=None, same=0.95, wanted=0.95):
    """Changes of reports that are nearly the `same`, and `wanted` so much, relative to before."""
    ones = np.ones(whole.shape)
    now = np.square(wanted / same) * ones
    return Changes(whole, whole if turned is None else turned, now, wanted * ones, ones)


def test_who_is_turned_round_answers_against_the_others_too(rng):
    """Four flip their reports; of four that want something else descent answers alike, or apart."""
    updates = rng.normal(size=4000) + 0.5 * rng.normal(size=(12, 4000))
    updates[:4] *= -1
    cosine, change = a_step_later(updates, rng, [-1.0] * 4 + [1.0] * 8)
    found = ways_of(cosine, EVERYBODY, EVERYBODY, change)
    assert found.against.tolist() == [True] * 4 + [False] * 8
    assert found.way.tolist() == [-1] * 4 + [1] * 8
    assert (found.power > 0.99).all()
    for answers in ([1.0] * 12, [0.0] * 4 + [1.0] * 8):
        cosine, change = a_step_later(updates, rng, answers)
        found = ways_of(cosine, EVERYBODY, EVERYBODY, change)
        assert found.against.tolist() == [True] * 4 + [False] * 8
        assert found.way[:4].tolist() == [answers[0]] * 4


def test_of_data_of_one_kind_who_points_against_the_others_is_named_whatever_its_changes_say(rng):
    updates = rng.normal(size=4000) + 0.5 * rng.normal(size=(12, 4000))
    updates[:4] *= -1
    cosine, change = a_step_later(updates, rng, [1.0] * 12)
    found = ways_of(cosine, EVERYBODY, EVERYBODY, change, one_kind=True)
    assert found.way.tolist() == [-1] * 4 + [1] * 8
    assert (found.power == 0.1).all()


def test_both_looks_at_a_change_must_tell(rng):
    updates = rng.normal(size=4000) + 0.5 * rng.normal(size=(12, 4000))
    updates[:4] *= -1
    cosine, against = a_step_later(updates, rng, [-1.0] * 4 + [1.0] * 8)
    _, along = a_step_later(updates, rng, [1.0] * 12)
    for looks in ((against.whole, along.whole), (along.whole, against.whole)):
        assert (ways_of(cosine, EVERYBODY, EVERYBODY, changed(*looks)).way == 1).all()


@pytest.mark.parametrize(
    ("same", "wanted", "told"),
    [
        (0.95, 0.95, True),  # the shared report is the one of before, and wanted less
        (0.95, 1.05, False),  # it is wanted more: gradients grow
        (0.88, 0.5, True),
        (0.85, 0.5, False),  # it has turned by more than half: another layer, another mask
        (0.5, 0.5, False),
        (-0.95, -0.95, False),
    ],
)
def test_only_answers_to_what_was_shared_tell_who_is_turned_round(rng, same, wanted, told):
    updates = rng.normal(size=4000) + 0.5 * rng.normal(size=(12, 4000))
    updates[:4] *= -1
    cosine, change = a_step_later(updates, rng, [-1.0] * 4 + [1.0] * 8)
    found = ways_of(cosine, EVERYBODY, EVERYBODY, changed(change.whole, None, same, wanted))
    assert found.way[:4].tolist() == [-1 if told else 0] * 4
    assert found.power.any() == told


def test_changes_are_those_since_the_newest_report(rng):
    """Of a report that only grew nothing is told, nor of a newcomer's; lengths are taken off."""
    reports, old, news = rng.normal(size=(3, 4, 500))
    past = np.zeros((4, 3, 500))
    past[:3, 0], past[:3, 1] = old[:3], reports[:3]
    updates = np.stack([2.0 * reports[0], reports[1] + news[1], 3.0 * reports[2] + news[1], old[3]])
    found = changes(updates, past, 0.1)
    assert not found.whole[[0, 3]].any()
    assert found.turned[1, 2] == pytest.approx(1.0, abs=0.02)
    assert found.whole[1, 2] < 0.6
    lengths = np.linalg.norm(reports[1:3], axis=1)
    units, now = reports[1:3] / lengths[:, None], updates[1:3] / lengths[:, None]
    assert found.before[1:3, 1:3] == pytest.approx(units @ units.T)
    assert found.across[1:3, 1:3] == pytest.approx(now @ units.T)
    assert found.now[1:3, 1:3] == pytest.approx(now @ now.T)


def test_where_changes_have_nothing_in_common_nobody_is_turned_round(rng):
    """Noise tells nothing, and says so: a bet on it is worth nothing."""
    updates = rng.normal(size=4000) + 0.5 * rng.normal(size=(12, 4000))
    updates[:4] *= -1
    cosine, change = a_step_later(updates, rng, np.zeros(12))
    found = ways_of(cosine, EVERYBODY, EVERYBODY, change)
    assert not (found.way[:4] < 0).any()
    assert (found.power < 0.2).all()


def test_without_earlier_reports_nobody_is_turned_round(rng):
    """Newcomers have no change; and of six changes nobody knows what is usual."""
    updates = rng.normal(size=4000) + 0.5 * rng.normal(size=(12, 4000))
    updates[:4] *= -1
    cosine, change = a_step_later(updates, rng, [-1.0] * 4 + [1.0] * 8)
    change.whole[0] = change.whole[:, 0] = 0.0
    found = ways_of(cosine, EVERYBODY, EVERYBODY, change)
    assert found.way[:4].tolist() == [0, -1, -1, -1]
    assert found.power[0] == 0
    change.whole[10:] = change.whole[:, 10:] = 0.0
    for told in (change, None):
        found = ways_of(cosine, EVERYBODY, EVERYBODY, told)
        assert found.against[:4].all()
        assert not (found.way < 0).any()
        assert not found.power.any()


def test_who_points_against_the_others_is_told(rng):
    updates = rng.normal(size=4000) + rng.normal(size=(12, 4000))
    updates[:4] *= -1
    found = points_against(cosines_of(updates), np.ones(12, dtype=bool))
    assert found.tolist() == [True] * 4 + [False] * 8


def test_too_few_with_one_direction_judge_nobody(rng):
    """Seven that point one way are enough, six are not."""
    updates = rng.normal(size=4000) + rng.normal(size=(9, 4000))
    updates[:2] *= -1
    cosine = cosines_of(updates)
    assert points_against(cosine, np.ones(9, dtype=bool)).tolist() == [True] * 2 + [False] * 7
    assert not points_against(cosine[:8, :8], np.ones(8, dtype=bool)).any()


def test_in_a_cohort_that_hardly_has_a_direction_an_odd_client_is_not_turned_round(rng):
    """It points against most, but members differ among each other about as much."""
    common, other = rng.normal(size=(2, 4000))
    pulls = np.array([0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.3, 1.6, -0.3])
    updates = pulls[:, None] * common + 2 * rng.normal(size=(9, 4000)) + 0.1 * other
    assert not points_against(cosines_of(updates), np.ones(9, dtype=bool)).any()


def test_a_client_with_nothing_in_common_does_not(rng):
    updates = rng.normal(size=4000) + rng.normal(size=(12, 4000))
    updates[0] = rng.normal(size=4000)
    assert not points_against(cosines_of(updates), np.ones(12, dtype=bool)).any()


def test_who_hardly_points_against_the_others_is_not_turned_round(rng):
    """A client with nothing in common has a negative cosine in every second round."""
    updates = 2 * rng.normal(size=4000) + rng.normal(size=(12, 4000))  # mean cosine 0.8
    updates[0] = rng.normal(size=4000)
    updates[0] -= 0.01 * updates[1:].mean(axis=0)
    assert not points_against(cosines_of(updates), np.ones(12, dtype=bool)).any()
    updates[0] = rng.normal(size=4000) - updates[1:].mean(axis=0) / 2
    found = points_against(cosines_of(updates), np.ones(12, dtype=bool))
    assert found.tolist() == [True] + [False] * 11


def test_nobody_does_where_honest_clients_pull_apart():
    """Every client has two of ten classes and unlearns the others."""
    rng = np.random.default_rng(6)
    classes = rng.normal(size=(10, 5_000))
    for _ in range(20):
        held = np.array([rng.choice(10, 2, replace=False) for _ in range(12)])
        pull = np.full((12, 10), -0.2)
        np.put_along_axis(pull, held, 1.0, axis=1)
        updates = pull @ classes + 2 * rng.normal(size=(12, 5_000))
        assert not points_against(cosines_of(updates), np.ones(12, dtype=bool)).any()


@pytest.mark.filterwarnings("error")
def test_a_single_member_has_no_direction():
    alone = np.arange(4) == 0
    assert not points_against(np.eye(4), alone).any()


def test_three_members_have_no_direction():
    cosine = np.array([[1.0, 0.9, 0.9, -0.9]] * 4)
    assert not points_against(cosine, np.array([True, True, True, False])).any()


def turned_round(row, way=-1, power=1.0):
    """A round of six clients that agree clearly, one of whom is turned round or surely not."""
    z = np.full((6, 6), 30.0)
    np.fill_diagonal(z, np.nan)
    ways, powers = np.where(np.arange(6) == row, way, 0), np.full(6, power)
    evidence = replace(result_from(z).evidence, way=ways, power=powers)
    return Contributions.of("", np.ones(6), evidence=evidence)


NAMES = list("abcdef")


def test_it_takes_rounds_to_name_who_is_turned_round():
    watch, rounds = Watch(rate=0.01), 0
    while not any(verdict.flagged for verdict in watch.verdicts()):
        watch.observe(NAMES, turned_round(2))
        rounds += 1
        assert rounds < 10
    assert rounds == 2  # each bet multiplies by 90.1; a third of it must reach 600
    assert [(v.client, v.flag) for v in watch.verdicts() if v.flagged] == [
        ("c", Flag(Kind.REVERSED))
    ]


@pytest.mark.parametrize(("power", "stake"), [(1.0, 0.9), (0.505, 0.5), (0.01, 0.0), (0.0, 0.0)])
def test_the_stake_on_direction_is_kellys_for_the_power_of_the_round(power, stake):
    """Where nobody could be seen to be turned round nothing is bet."""
    known = bet({}, NAMES, turned_round(2, power=power))
    won, lost = 1 - stake + stake / 0.01, 1 - stake
    assert known["c"].reversed == pytest.approx(np.log(0.9 * won + 0.1))
    assert known["a"].reversed == pytest.approx(np.log(0.9 * lost + 0.1))


def test_who_points_along_takes_back_what_a_round_against_told():
    """Data of one's own pull back and forth: who is turned round is so in every round."""
    known, won = bet({}, NAMES, turned_round(2)), 0.1 + 0.9 / 0.01
    known = bet(known, NAMES, turned_round(2, way=1))
    left = (0.9 * won + 0.1 - 0.05) / won + 0.05
    assert known["c"].reversed == pytest.approx(np.log(left))
    assert left < 1


def test_to_and_fro_is_no_evidence():
    known = {}
    for number in range(40):
        known = bet(known, NAMES, turned_round(2, way=-1 if number % 2 else 1))
        assert known["c"].evidence < np.log(40)


def test_rounds_along_the_others_are_no_credit_for_later():
    """Who works first and turns its updates round then needs some rounds more, not as many."""
    for honest, needed in ((0, 2), (15, 4), (40, 4), (1000, 6)):
        known, rounds = {}, 0
        for _ in range(honest):
            known = bet(known, NAMES, turned_round(2, way=1))
        while known.get("c", Wealth()).evidence < np.log(600):
            known = bet(known, NAMES, turned_round(2))
            rounds += 1
        assert rounds == needed


def test_most_of_those_present_must_share_a_way(rng):
    """Eight that share a way are most of twelve, and not of sixteen who have worked."""
    updates = rng.normal(size=4000) + rng.normal(size=(16, 4000))
    updates[:4] *= -1
    members = np.arange(16) < 12
    cosine = cosines_of(updates)
    assert ways_of(cosine, members, members).way.tolist()[:12] == [0] * 4 + [1] * 8
    assert points_none(ways_of(cosine, members, np.ones(16, dtype=bool)))


def points_none(ways: Ways):
    return not ways.against.any() and not ways.way.any() and not ways.power.any()


def test_the_latest_reason_is_told():
    """A client that was a copy once is named for what it did since."""
    copied = [None, None, Flag(Kind.COPY, twin="0"), None, None, None]
    known = bet({}, NAMES, Contributions.of("", np.ones(6), flags=copied))
    assert known["c"].flag == Flag(Kind.COPY, twin="a")
    known = bet(known, NAMES, turned_round(2))
    assert known["c"].flag == Flag(Kind.REVERSED)
    assert not known["c"].standing
