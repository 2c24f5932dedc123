import tracemalloc

import numpy as np
import pytest

from fedmerit import Contributions
from fedmerit.evidence.bets import bet
from fedmerit.evidence.cohort import (
    cohort_of,
    near_copies,
    repeated_reports,
)
from fedmerit.evidence.cohort import find_cohort as cohort_in
from fedmerit.flags import Flag, Kind

CLIQUE, INDEPENDENT = Flag(Kind.CLIQUE), Flag(Kind.INDEPENDENT)
PARAMETERS = 1_000_000


def find_cohort(z, barred=None):
    nobody = np.zeros(len(z), dtype=np.bool_)
    return cohort_in(z, nobody if barred is None else barred, PARAMETERS)


def z_of(groups, strength=50.0):
    """A z matrix in which the members of each group agree and others do not."""
    k = sum(len(group) for group in groups)
    z = np.zeros((k, k))
    for group in groups:
        z[np.ix_(group, group)] = strength
    np.fill_diagonal(z, np.nan)
    return z


def test_largest_group_is_the_cohort():
    cohort = find_cohort(z_of([[0, 3, 4], [1, 2], [5]]))
    assert cohort.members.tolist() == [True, False, False, True, True, False]
    assert cohort.typical == 50
    assert cohort.agreement.tolist() == [50, 0, 0, 50, 50, 0]
    assert cohort.flags == (None, CLIQUE, CLIQUE, None, None, INDEPENDENT)


def test_who_agrees_elsewhere_is_accused_only_by_most_of_those_who_agree():
    halves = find_cohort(z_of([[0, 1, 2, 3], [4, 5, 6, 7], [8]]))
    assert halves.flags == (None,) * 9
    assert not halves.least.any()
    most = find_cohort(z_of([[0, 1, 2, 3, 4], [5, 6, 7], [8]]))
    assert most.flags == (None,) * 5 + (CLIQUE,) * 3 + (INDEPENDENT,)


def four_and_eight(mean, rng):
    """Four clients who agree, and eight who hardly agree with each other, on average `mean`."""
    z = np.triu(rng.normal(size=(12, 12)), 1)
    z[4:, 4:] += np.triu(np.full((8, 8), mean), 1)
    z[:4, :4] = np.triu(np.full((4, 4), 60.0), 1)
    z += z.T
    np.fill_diagonal(z, np.nan)
    return z


def test_a_smaller_cohort_accuses_nobody_where_most_agree_a_little(rng):
    assert find_cohort(four_and_eight(1.5, rng)).flags == (None,) * 12
    independent = find_cohort(four_and_eight(0.0, rng))
    assert independent.flags == (None,) * 4 + (INDEPENDENT,) * 8


def thirty_and_seventy(rng):
    """Thirty clients who agree, and seventy who agree with nobody."""
    z = np.triu(rng.normal(size=(100, 100)), 1)
    z[:30, :30] = np.triu(np.full((30, 30), 60.0), 1)
    z += z.T
    np.fill_diagonal(z, np.nan)
    return z


def test_a_few_who_agree_beyond_measure_do_not_speak_for_all_beside_a_cohort(rng):
    """Three of seventy, at a mean z of 0.07 over all pairs of these."""
    z = thirty_and_seventy(rng)
    z[30:33, 30:33] = 60.0
    np.fill_diagonal(z, np.nan)
    assert np.nanmean(z[30:, 30:]) > 3 / np.sqrt(70 * 69 / 2)
    flags = find_cohort(z).flags
    assert flags == (None,) * 30 + (CLIQUE,) * 3 + (INDEPENDENT,) * 67


def test_who_wants_the_same_under_much_noise_is_a_group_by_the_cosines(rng):
    """No z tells these seventy: what they share is a tenth of their noise."""
    z = thirty_and_seventy(rng)
    assert find_cohort(z).flags == (None,) * 30 + (INDEPENDENT,) * 70
    reports = rng.normal(size=(100, 2000))
    reports[30:] += 0.1 * rng.normal(size=2000)
    units = reports / np.linalg.norm(reports, axis=1, keepdims=True)
    asked = []

    def alike(rows):
        asked.append(rows.tolist())
        return units[rows] @ units[rows].T

    assert cohort_in(z, np.zeros(100, dtype=bool), 2000, alike=alike).flags == (None,) * 100
    assert asked == [list(range(30, 100))]


def test_four_who_agree_a_little_beside_three_are_seen_too():
    """Few sums are bounded if each is divided by its own length; a z has a length of one."""
    z = np.full((7, 7), 2.0)
    z[:3, :3] = 60.0
    z[:3, 3:] = z[3:, :3] = 0.0
    np.fill_diagonal(z, np.nan)
    assert find_cohort(z).flags == (None,) * 7
    z[3:, 3:] = 0.5
    np.fill_diagonal(z, np.nan)
    assert find_cohort(z).flags == (None,) * 3 + (INDEPENDENT,) * 4


def test_who_moved_few_parameters_is_not_expected_to_show_much():
    """z grows with the root of the parameters that tell: a hundredth of them show a tenth."""
    z = z_of([[0, 1, 2, 3, 4], [5]], strength=30.0)
    z[5, :5] = z[:5, 5] = 1.0
    moved = np.array([100_000] * 5 + [1000])
    nobody = np.zeros(6, dtype=np.bool_)
    assert find_cohort(z).flags[5] == INDEPENDENT
    few = cohort_in(z, nobody, PARAMETERS, moved)
    assert few.flags == (None,) * 6
    assert few.least.tolist() == [10.0] * 5 + [1.0]
    assert cohort_in(z, nobody, PARAMETERS, moved // 10).least[5] == 0


def test_who_is_barred_can_still_show_work():
    z = np.full((6, 6), 30.0)
    z[5, :5] = z[:5, 5] = 0.0
    np.fill_diagonal(z, np.nan)
    cohort = find_cohort(z, np.arange(6) >= 4)
    assert cohort.members.tolist() == [True] * 4 + [False] * 2
    assert cohort.shown.tolist() == [True] * 5 + [False]
    nobody = find_cohort(z_of([[0], [1], [2]]))
    assert not nobody.shown.any()


def test_a_chain_of_agreement_is_one_group():
    z = np.zeros((4, 4))
    for i in range(3):
        z[i, i + 1] = z[i + 1, i] = 20
    np.fill_diagonal(z, np.nan)
    assert find_cohort(z).members.all()


def test_where_nobody_agrees_nobody_is_accused():
    cohort = find_cohort(z_of([[0], [1], [2]]))
    assert not cohort.members.any()
    assert cohort.typical == 0
    assert cohort.flags == (None,) * 3


def test_without_a_matrix_of_pairs_nothing_is_bet_and_none_is_made():
    names = [str(client) for client in range(20_000)]
    result = Contributions.of("merit", np.zeros(20_000))
    tracemalloc.start()
    wealth = bet({}, names, result)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {known.evidence for known in wealth.values()} == {0.0}
    assert peak < 10e6


def test_a_client_that_agrees_on_average_is_not_accused():
    z = np.full((4, 4), 5.0)
    z[3, :3] = z[:3, 3] = 2.5  # no single pair is significant, but a rider would show none
    np.fill_diagonal(z, np.nan)
    cohort = find_cohort(z)
    assert cohort.members.tolist() == [True, True, True, False]
    assert cohort.flags == (None,) * 4


def test_a_weak_cohort_accuses_nobody():
    # A third of 9 is more than independent clients of three members reach, one of 6 is not.
    strong = find_cohort(z_of([[0, 1, 2], [3], [4]], strength=9.0))
    assert strong.flags == (None,) * 3 + (INDEPENDENT,) * 2
    weak = find_cohort(z_of([[0, 1, 2], [3], [4]], strength=6.0))
    assert weak.members.tolist() == [True] * 3 + [False] * 2
    assert weak.flags == (None,) * 5


def test_where_members_are_not_most_only_what_exceeds_the_pick_counts():
    """Of three in six, those who agreed most were picked: 9 is 6 more than had to be."""
    z = z_of([[0, 1, 2], [3], [4], [5]], strength=9.0)
    assert find_cohort(z).flags == (None,) * 6
    assert 1.8 < find_cohort(z).least[0] < 2.2
    strong = find_cohort(z_of([[0, 1, 2], [3], [4], [5]], strength=12.0))
    assert strong.flags == (None,) * 3 + (INDEPENDENT,) * 3


def test_two_clients_are_no_yardstick_for_a_third():
    pair = find_cohort(z_of([[0, 1], [2], [3], [4]]))
    assert pair.members.tolist() == [True, True, False, False, False]
    assert pair.flags == (None,) * 5


def test_the_deviation_of_a_mean_counts_how_alike_its_members_are():
    z = z_of([[0, 1, 2, 3], [4]], strength=30.0)
    nobody = np.zeros(5, dtype=np.bool_)
    apart = cohort_in(z, nobody, 10**12).deviation
    np.testing.assert_allclose(apart, [3**-0.5] * 4 + [0.5], rtol=1e-3)
    alike = cohort_in(z, nobody, 900).deviation  # signs that agree wholly say one thing only
    np.testing.assert_allclose(alike, 1.0)


def test_of_equal_groups_the_stronger_is_the_cohort():
    z = z_of([[0, 1], [2, 3]])
    z[2, 3] = z[3, 2] = 60
    assert find_cohort(z).members.tolist() == [False, False, True, True]


def test_near_copies_are_grouped():
    cosine = np.eye(4)
    cosine[0, 2] = cosine[2, 0] = 0.99
    copies = near_copies(cosine, np.ones(len(cosine), dtype=bool), 0.01)
    assert copies.group_size.tolist() == [2, 1, 2, 1]
    assert copies.twin.tolist() == [2, -1, 0, -1]


def test_where_all_move_alike_nobody_is_a_copy():
    cosine = np.full((6, 6), 0.99) + np.random.default_rng(0).uniform(-0.003, 0.003, (6, 6))
    cosine = (cosine + cosine.T) / 2
    np.fill_diagonal(cosine, 1.0)
    assert near_copies(cosine, np.ones(len(cosine), dtype=bool), 0.01).twin.tolist() == [-1] * 6
    cosine[1, 4] = cosine[4, 1] = 1 - 1e-6
    assert near_copies(cosine, np.ones(len(cosine), dtype=bool), 0.01).twin.tolist() == [
        -1,
        4,
        -1,
        -1,
        1,
        -1,
    ]


def test_who_is_barred_neither_joins_nor_makes_a_group():
    z = z_of([[0, 1, 2], [3, 4]])
    barred = np.array([True, True, True, False, False])
    assert find_cohort(z, barred).members.tolist() == [False, False, False, True, True]
    z[3, 4] = z[4, 3] = 0
    z[2, 3] = z[3, 2] = 50  # joined through somebody barred, so not joined
    z[2, 4] = z[4, 2] = 50
    assert not find_cohort(z, barred).members.any()


def relative(cohort):
    clients = len(cohort.members)
    return cohort.evidence(np.zeros(clients), np.ones(clients, dtype=np.int64)).relative


def test_one_sided_agreement_holds_no_disagreement_against_a_client():
    z = z_of([[0, 1, 2, 3]], strength=40.0)
    z[3, 0] = z[0, 3] = -90.0
    ordered = np.argwhere(~np.isnan(z))
    nobody = np.zeros(4, dtype=bool)
    both = cohort_of(ordered, z[tuple(ordered.T)], nobody, PARAMETERS)
    assert both.members.all()
    assert relative(both).tolist() == [0, 1, 1, 0]
    one = cohort_of(ordered, z[tuple(ordered.T)], nobody, PARAMETERS, one_sided=True)
    chance = (2 * np.pi) ** -0.5  # what a client that agrees with nobody has on average
    np.testing.assert_allclose(one.agreement, np.array([80, 120, 120, 80]) / 3 - chance)
    assert relative(one).min() > 0.6


def test_accounts_that_share_one_work_do_not_raise_what_is_asked_of_others():
    """Two of six agree with each other far more than with anybody; most pairs do not."""
    z = z_of([[0, 1, 2, 3, 4, 5], [6]], strength=9.0)
    plain = find_cohort(z)
    z[0, 1] = z[1, 0] = 200.0
    assert find_cohort(z).agreement[0] > 40.0
    assert set(find_cohort(z).least) == set(plain.least) == {3.0}


def test_one_member_that_hardly_belongs_shields_nobody():
    """It shares a secret with a single member, so that somebody agrees little."""
    z = z_of([list(range(10)), [10], [11]], strength=30.0)
    z[10, 0] = z[0, 10] = 30.0
    cohort = find_cohort(z)
    assert cohort.members.tolist() == [True] * 11 + [False]
    assert cohort.least.min() == pytest.approx(9.0)  # all means fall by a tenth
    assert cohort.flags[11] == INDEPENDENT


def test_members_that_agree_little_lower_what_is_asked_of_others():
    """Three of ten do: nobody is expected to agree like the rest."""
    z = z_of([list(range(10)), [10]], strength=30.0)
    for place, share in enumerate([0.2, 0.25, 0.3]):
        z[place] *= share
        z[:, place] *= share
    z[10, :10] = z[:10, 10] = 0.0
    assert find_cohort(z).least.max() == pytest.approx(0.1 * 30.0)
    assert find_cohort(z_of([list(range(10)), [10]], strength=30.0)).least.max() == 10.0


def test_who_agrees_significantly_is_not_accused_of_independence():
    """Five standard deviations of a mean over nine members, where these show 90 each."""
    z = z_of([list(range(9)), [9]], strength=90.0)
    z[9, :9] = z[:9, 9] = 2.5  # joins nobody
    nobody = np.zeros(10, dtype=np.bool_)
    cohort = cohort_in(z, nobody, 1_000_000_000)
    assert not cohort.members[9]
    assert cohort.flags[9] is None
    z[9, :9] = z[:9, 9] = 0.5
    assert cohort_in(z, nobody, 1_000_000_000).flags[9] == INDEPENDENT


def test_repeated_work_is_told_by_what_the_cohort_repeats(rng):
    everybody, one = np.ones(12, dtype=np.bool_), np.arange(12) == 0
    left = np.where(one, 1e-6, rng.uniform(0.2, 0.6, size=12))
    assert repeated_reports(1 - left, np.full(12, 5), everybody, everybody).tolist() == one.tolist()
    # Who has no past is no yardstick for those who have one.
    known = np.where(np.arange(12) < 4, 5, 0)
    alone = np.where(known > 0, 1e-5, 1.0)
    assert not repeated_reports(1 - alone, known, everybody, everybody).any()
    # Where training hardly changes, half of the reports are new by rounding alone.
    smooth = np.where(np.arange(12) < 6, 5e-5, 10 ** rng.uniform(-3, -2, size=12))
    assert not repeated_reports(1 - smooth, np.full(12, 5), everybody, everybody).any()
    # Members that are not most of those who are there are no yardstick either.
    few = np.arange(12) < 6
    assert not repeated_reports(1 - left, np.full(12, 5), few, everybody).any()
