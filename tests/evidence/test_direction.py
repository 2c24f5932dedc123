from dataclasses import replace

import numpy as np
import pytest

from fedmerit import Flag, Kind, Watch
from fedmerit.evidence.bets import Wealth, bet
from fedmerit.evidence.cohort import balancing, ways_of
from fedmerit.types import Contributions
from tests.evidence.cohorts import result_from


def cosines_of(updates):
    unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    return unit @ unit.T


def points_against(cosine, members):
    """Who does, where everybody who is present is a member or may be one."""
    return ways_of(cosine, members, np.ones(len(members), dtype=bool)) < 0


def test_who_is_turned_round_points_against_the_others(rng):
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


def test_a_client_past_its_optimum_is_pulled_back_and_not_turned_round(rng):
    """Late in a run little is common: an honest client with data of its own points against all."""
    common = rng.normal(size=4000)
    updates = 0.4 * common + rng.normal(size=(12, 4000))  # mean cosine 0.14
    updates[0] = rng.normal(size=4000) - 0.4 * common
    cosine = cosines_of(updates)
    assert cosine[0, 1:].max() < 0
    assert not points_against(cosine, np.ones(12, dtype=bool)).any()


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


def turned_round(row, way=-1):
    """A round of six clients that agree clearly, one of whom points against the others or along."""
    z = np.full((6, 6), 30.0)
    np.fill_diagonal(z, np.nan)
    evidence = replace(result_from(z).evidence, way=np.where(np.arange(6) == row, way, 0))
    return Contributions.of("", np.ones(6), evidence=evidence)


def test_it_takes_rounds_to_name_who_points_against_the_others():
    watch, rounds = Watch(rate=0.01), 0
    while not any(verdict.flagged for verdict in watch.verdicts()):
        watch.observe(list("abcdef"), turned_round(2))
        rounds += 1
        assert rounds < 10
    assert rounds == 4  # each bet multiplies by 10.9; a third of it must reach 600
    assert [(v.client, v.flag) for v in watch.verdicts() if v.flagged] == [
        ("c", Flag(Kind.REVERSED))
    ]


def test_who_points_along_takes_back_what_a_round_against_told():
    """Data of one's own pull back and forth: who is turned round is so in every round."""
    known, against = bet({}, list("abcdef"), turned_round(2)), 0.9 + 0.1 / 0.01
    assert known["c"].reversed == pytest.approx(np.log(0.9 * against + 0.1))
    assert known["a"].reversed == pytest.approx(np.log(0.9 * 0.9 + 0.1))
    known = bet(known, list("abcdef"), turned_round(2, way=1))
    left = (0.9 * against + 0.1 - 0.05) / against + 0.05
    assert known["c"].reversed == pytest.approx(np.log(left))
    assert left < 1


def test_to_and_fro_is_no_evidence():
    known = {}
    for number in range(40):
        known = bet(known, list("abcdef"), turned_round(2, way=-1 if number % 2 else 1))
        assert known["c"].evidence < np.log(10)


def test_rounds_along_the_others_are_no_credit_for_later():
    """Who works first and turns its updates round then is named as soon, or a round later."""
    for honest, needed in ((0, 4), (15, 4), (40, 5)):
        known, rounds = {}, 0
        for _ in range(honest):
            known = bet(known, list("abcdef"), turned_round(2, way=1))
        while known.get("c", Wealth()).evidence < np.log(600):
            known = bet(known, list("abcdef"), turned_round(2))
            rounds += 1
        assert rounds == needed


def test_some_against_others_are_two_populations(rng):
    """Eight that share a way are most of twelve, and not of sixteen who have worked."""
    updates = rng.normal(size=4000) + rng.normal(size=(16, 4000))
    updates[:4] *= -1
    members = np.arange(16) < 12
    cosine = cosines_of(updates)
    assert ways_of(cosine, members, members).tolist()[:12] == [-1] * 4 + [1] * 8
    assert not ways_of(cosine, members, np.ones(16, dtype=bool)).any()


def test_nobody_is_turned_round_by_fewer_than_twice_as_many(rng):
    """Seven of one kind and five of another are two populations."""
    updates = rng.normal(size=4000) + rng.normal(size=(12, 4000))
    updates[:5] *= -1
    found = ways_of(cosines_of(updates), np.ones(12, dtype=bool), np.ones(12, dtype=bool))
    assert found.tolist() == [0] * 5 + [1] * 7


def test_who_balances_all_the_others_is_not_turned_round(rng):
    """Eleven want a little of one thing, and one client alone holds what they lack."""
    common = rng.normal(size=4000)
    updates = np.vstack([-common, 0.1 * (common + 0.5 * rng.normal(size=(11, 4000)))])
    everybody = np.ones(12, dtype=bool)

    def told(weights):
        # The median of what is usual caps a pull, so the eleven are heard in full.
        balances = balancing(updates @ updates.T, weights, everybody)
        return balances.tolist(), ways_of(cosines_of(updates), everybody, everybody, balances)[0]

    assert ways_of(cosines_of(updates), everybody, everybody)[0] == -1
    updates[0] *= 0.9  # as long as nine of the others together, but heard as two
    assert told(np.ones(12)) == ([False] * 12, -1)
    updates[1:9] = 0.1 * 0.25 * rng.normal(size=(8, 4000))  # eight have no wish any more
    updates[0] /= 4
    assert told(np.ones(12))[0] == [True] + [False] * 11


@pytest.mark.parametrize("claimed", [1, 10, 1000])
def test_no_claim_of_size_or_length_makes_a_flip_balance_the_others(rng, claimed):
    updates = rng.normal(size=4000) + rng.normal(size=(12, 4000))
    updates[0] *= -claimed
    weights = np.where(np.arange(12) == 0, claimed, 1.0)
    assert not balancing(updates @ updates.T, weights, np.ones(12, dtype=bool)).any()


def test_what_is_balanced_by_hand():
    """Two pull 2 and 1 one way, one pulls 1.5 back: half of 3, so it balances them."""
    updates = np.array([[2.0], [1.0], [-1.5]])
    members = np.ones(3, dtype=bool)
    assert balancing(updates @ updates.T, np.ones(3), members).tolist() == [False, False, True]
    updates[2] = -1.4
    assert not balancing(updates @ updates.T, np.ones(3), members).any()


def test_the_latest_reason_is_told():
    """A client that was a copy once is named for what it did since."""
    copied = [None, None, Flag(Kind.COPY, twin="0"), None, None, None]
    known = bet({}, list("abcdef"), Contributions.of("", np.ones(6), flags=copied))
    assert known["c"].flag == Flag(Kind.COPY, twin="a")
    known = bet(known, list("abcdef"), turned_round(2))
    assert known["c"].flag == Flag(Kind.REVERSED)
    assert not known["c"].standing
