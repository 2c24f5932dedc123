"""What a report tells: the laws of the information that is paid."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerit import Flag, Kind
from fedmerit.errors import SettingError
from fedmerit.scorers import Merit
from fedmerit.scorers.information import once, shared_work, shrunk, tell
from fedmerit.validation import check_round

CLIENTS, SIZE = 20, 6000


def a_round(seed=0, clients=CLIENTS, own=2.0):
    """A common direction, something of each client's own, public vectors and two earlier rounds."""
    rng = np.random.default_rng(seed)
    public = rng.normal(size=(3, SIZE))
    updates = rng.normal(size=SIZE) + own * rng.normal(size=(clients, SIZE)) + public[0]
    past = rng.normal(size=(clients, 2, SIZE))
    return updates, public, past, rng


def merit_of(updates, public, past, testimony=None):
    inputs = replace(check_round(updates, public, testimony=testimony), previous=past)
    return Merit().score(inputs, np.random.default_rng(5))


def share(result, clients):
    """What some clients get of everything."""
    return result.scores[clients].sum() / result.scores.sum()


@settings(max_examples=20)
@given(
    st.floats(1e-3, 1e3),
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    st.lists(st.floats(-3, 3), min_size=2, max_size=2),
)
def test_length_and_what_was_known_before_hardly_change_a_share(scale, known, own):
    updates, public, past, _ = a_round()
    truth = merit_of(updates, public, past)
    told_otherwise = updates.copy()
    told_otherwise[4] = scale * updates[4] + np.dot(known, public) + np.dot(own, past[4])
    lie = merit_of(told_otherwise, public, past)
    if lie.flags[4] is None:
        # It tells the same itself. For the others, who are compared with it, it is one of 19 peers
        # that is blurred by what is mixed in.
        np.testing.assert_allclose(share(lie, 4), share(truth, 4), rtol=2 / (CLIENTS - 1))
    else:  # where the mixture is nearly all there is, it is called a replay, or points elsewhere
        kinds = (Kind.EXPLAINED, Kind.REPEATED, Kind.REVERSED, Kind.UNDECIDED)
        assert lie.flags[4].kind in kinds
        assert lie.scores[4] == 0


def test_more_noise_tells_less():
    updates, public, past, rng = a_round()
    noise, got = rng.normal(size=SIZE), []
    for scale in (0, 0.5, 1, 2, 4, 8):
        noisy = updates.copy()
        noisy[4] += scale * noise
        got.append(share(merit_of(noisy, public, past), 4))
    assert (np.diff(got) <= 0).all()
    assert got[-1] < 0.5 * got[0]


@pytest.mark.parametrize("accounts", [2, 4, 7])
@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.05, 0.2, 0.5])
def test_accounts_with_one_work_are_paid_one_pay(accounts, noise):
    updates, public, past, rng = a_round(seed=3)
    alone = share(merit_of(updates[accounts - 1 :], public, past[accounts - 1 :]), 0)
    size = noise * np.sqrt(np.mean(updates[accounts - 1] ** 2))
    for account in range(accounts - 1):
        updates[account] = updates[accounts - 1] + size * rng.normal(size=SIZE)
        past[account] = past[accounts - 1] + size * rng.normal(size=(2, SIZE))
    together = share(merit_of(updates, public, past), slice(accounts))
    assert together < 1.2 * alone


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
def test_new_accounts_with_one_work_are_paid_one_pay(noise):
    """None of them has a past, as after taking new names; the others have one."""
    updates, public, past, rng = a_round(seed=4)
    past[:7] = 0
    alone = share(merit_of(updates[6:], public, past[6:]), 0)
    for account in range(6):
        size = noise * np.sqrt(np.mean(updates[6] ** 2))
        updates[account] = updates[6] + size * rng.normal(size=SIZE)
    assert share(merit_of(updates, public, past), slice(7)) < 1.2 * alone


def test_accounts_are_told_where_some_of_the_honest_do_not_agree():
    """Of those who agree most are accounts; of all who are not accused they are fewer than half."""
    updates, public, past, rng = a_round(seed=5)
    updates[16:] = updates[16:] - updates[16:].mean(axis=0) + rng.normal(size=(4, SIZE))
    honest = merit_of(updates, public, past)
    for account in range(1, 9):
        updates[account] = updates[0] + 0.4 * rng.normal(size=SIZE)
        past[account] = past[0] + 0.4 * rng.normal(size=(2, SIZE))
    result = merit_of(updates, public, past)
    assert result.evidence.copies[:9].min() > 8
    together = result.scores[:9].sum() / result.scores[9:16].mean()
    assert together < 1.2 * honest.scores[0] / honest.scores[9:16].mean()


@pytest.mark.parametrize("hidden", ["scale", "public"])
def test_accounts_with_one_work_cannot_be_told_apart_for_nothing(hidden):
    """They are longer than each other, or mixed with other public vectors."""
    updates, public, past, rng = a_round(seed=3)
    alone = share(merit_of(updates[3:], public, past[3:]), 0)
    for account in range(3):
        updates[account] = updates[3] + 0.1 * rng.normal(size=SIZE)
        if hidden == "scale":
            updates[account] *= 2.0**account
        if hidden == "public":
            updates[account] += (account + 1) * public[account]
    assert share(merit_of(updates, public, past), slice(4)) < 1.2 * alone


@pytest.mark.parametrize("held_by_others", [True, False])
def test_two_clients_with_data_of_one_kind_are_two(held_by_others):
    """What sets them apart is data: others have some of it too, or they had it before."""
    rng = np.random.default_rng(7)
    kinds = rng.normal(size=(6, SIZE))
    held = rng.dirichlet(np.ones(6), size=12)
    held[1] = held[0] + np.array([0.1, -0.1, 0, 0, 0, 0])
    if not held_by_others:
        held[:, :2] *= 0
        held[0, :2], held[1, :2] = (0.5, 0.4), (0.4, 0.5)
    past = (held @ kinds + 0.05 * rng.normal(size=(12, SIZE)))[:, None]
    updates = held @ kinds + 0.05 * rng.normal(size=(12, SIZE))

    def same():
        unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
        everybody, nobody = np.ones(12, dtype=bool), np.zeros((12, 12), dtype=bool)
        cosine = unit @ unit.T
        assert cosine[0, 1] > 0.9
        return shared_work(updates, past, nobody, everybody)[0, 1]

    assert same() == 0
    updates[1] = updates[0] + 0.2 * rng.normal(size=SIZE)
    past[1] = past[0] + 0.2 * rng.normal(size=SIZE)
    assert same() > 0.9


def test_own_old_work_in_any_mixture_is_a_repetition():
    updates, public, past, _ = a_round()
    updates[2] = past[2, 0]
    updates[5] = 3 * past[5, 1] - past[5, 0] + public[1]
    result = merit_of(updates, public, past)
    assert {result.flags[2].kind, result.flags[5].kind} <= {Kind.REPEATED, Kind.EXPLAINED}
    assert result.flags[2].words == "explained by its own earlier reports (100%)"
    assert (result.scores[[2, 5]] == 0).all()
    assert (result.scores[[c for c in range(CLIENTS) if c not in (2, 5)]] > 0).all()


def test_a_sketch_of_the_past_tells_a_repetition_that_whole_reports_do_not():
    updates, public, past, rng = a_round()
    inputs = replace(check_round(updates, public), previous=past)
    shares, reports = rng.uniform(0.0, 0.1, CLIENTS), np.full(CLIENTS, 9)
    shares[3] = 0.9999
    seen = replace(inputs, repeated=shares, reports=reports)
    result = Merit().score(seen, np.random.default_rng(5))
    assert result.flags[3].kind is Kind.REPEATED
    assert result.scores[3] == 0
    assert [flag for place, flag in enumerate(result.flags) if place != 3] == [None] * 19
    # A long past explains more: who has one is compared with others who do.
    shares[3], reports[:3], reports[4:] = 0.7, 1, 1
    assert Merit().score(seen, np.random.default_rng(5)).flags == (None,) * CLIENTS


def test_equal_clients_are_paid_nearly_equally():
    updates, public, past, _ = a_round()
    result = merit_of(updates, public, past)
    assert result.flags == (None,) * CLIENTS
    assert np.std(result.scores) / np.mean(result.scores) < 0.05


def before_a_step(updates, rng):
    """Earlier reports of those who sent `updates`: they wanted the same, and one step more."""
    size = np.linalg.norm(updates) / np.sqrt(updates.size)
    return (1.2 * updates + 0.3 * size * rng.normal(size=updates.shape[1]))[:, None]


def test_who_points_the_other_way_is_told_over_rounds_and_paid_nothing():
    updates, public, _, rng = a_round(own=1.0)
    past = before_a_step(updates, rng)
    updates[:3] *= -1
    past[:3] *= -1
    result = merit_of(updates, public, past)
    assert result.evidence.way.tolist() == [-1] * 3 + [1] * 17
    assert {flag.kind for flag in result.flags[:3]} == {Kind.REVERSED}
    assert result.scores[:3].max() < 0.4 * result.scores[3:].min()


def test_wrong_labels_look_like_other_data_unless_these_are_of_one_kind():
    """Both reports and changes of who has other labels: descent, so answers are as the others'."""
    updates, public, _, rng = a_round(own=1.0)
    updates[:3] -= 2 * updates.mean(axis=0)
    inputs = replace(check_round(updates, public), previous=before_a_step(updates, rng))
    for one_kind, told in ((False, 1), (True, -1)):
        result = Merit(one_kind=one_kind).score(inputs, np.random.default_rng(5))
        assert result.evidence.way.tolist() == [told] * 3 + [1] * 17, one_kind
        assert (result.scores[:3] == 0).all()
    with pytest.raises(SettingError, match="one_kind must be True or False, got 'yes'"):
        Merit(one_kind="yes")


def test_differences_that_do_not_last_are_evened_out():
    now = np.array([0.8, 0.9, 1.0, 1.1, 1.2])
    everybody = np.ones(5, dtype=bool)
    lasting = shrunk(now, everybody, past=now)
    np.testing.assert_allclose(lasting, now)
    passing = shrunk(now, everybody, past=np.array([1.0, 1.2, 0.8, 1.0, 1.0]))
    assert passing.std() < 0.5 * now.std()
    assert (np.argsort(passing) == np.argsort(now)).all()
    np.testing.assert_allclose(shrunk(now, everybody, None), passing)


def test_who_tells_far_less_is_not_evened_out():
    now = np.array([0.01, 0.9, 1.0, 1.1, 1.05, 0.95])
    result = shrunk(now, np.ones(6, dtype=bool), None)
    assert result[0] < 0.02
    silent = shrunk(np.array([0.0, 1.0, 1.1]), np.ones(3, dtype=bool), None)
    assert silent[0] == 0


def test_nobody_tells_anything_where_nobody_counts():
    assert shrunk(np.ones(3), np.zeros(3, dtype=bool), None).tolist() == [0, 0, 0]


def told(private, reports, same, members, before=None, left=None):
    left = np.ones(len(private)) if left is None else left
    lengths = np.linalg.norm(private, axis=1)
    # `tell` gets lengths of private parts as shares of reports.
    return tell(private / lengths[:, None], left, before, reports, np.ones(3), same, members)


def test_told_by_hand():
    size = 10**6
    axes = np.zeros((3, size))
    axes[range(3), range(3)] = 1.0
    # Rows that have the cosines 0.5, -0.4 and 0.1 with each other.
    mix = np.linalg.cholesky([[1.0, 0.5, -0.4], [0.5, 1.0, 0.1], [-0.4, 0.1, 1.0]])
    rows, members, apart = mix @ axes, np.ones(3, dtype=bool), np.zeros((3, 3))
    chance = 1 / np.sqrt(2 * np.pi * size)
    tells, testimony = told(rows, rows, apart, members)
    np.testing.assert_allclose(tells, np.array([0.25, 0.3, 0.05]) - chance)
    np.testing.assert_allclose(testimony, rows)
    # Clients 0 and 1 are one work: what they show each other does not count, and they count once.
    one = np.zeros((3, 3))
    one[0, 1] = one[1, 0] = 1.0
    assert told(rows, rows, one, members)[0] == pytest.approx([0, 0.1, 0.05], abs=2e-3)
    assert once(one).tolist() == [True, False, True]
    # Who has nothing left tells nothing, whatever it told before.
    nothing = np.array([0.0, 1.0, 1.0])
    assert told(rows, rows, apart, members, before=rows, left=nothing)[0][0] == 0


def test_the_newest_report_counts_a_third_of_a_testimony_whatever_its_length():
    rng = np.random.default_rng(1)
    first, second = (rng.normal(size=(3, 500)) for _ in range(2))
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (first, second)]
    none, members = np.zeros((3, 3)), np.ones(3, dtype=bool)
    _, before = told(first, first, none, members)
    np.testing.assert_allclose(before, units[0])
    before[2] = 0  # a newcomer
    _, after = told(1000 * second, second, none, members, before=before)
    np.testing.assert_allclose(after[:2], (2 * units[0][:2] + units[1][:2]) / 3)
    np.testing.assert_allclose(after[2], units[1][2])


def test_who_has_told_nothing_before_is_compared_by_its_report_alone():
    """Whatever the others told before counts relative to what is usual among them."""
    updates, public, past, rng = a_round()
    testimony = rng.normal(size=(CLIENTS, SIZE)) / np.sqrt(SIZE)  # which has not come true
    testimony[4] = 0
    assert share(merit_of(updates, public, past, testimony), 4) == pytest.approx(0.05, rel=0.1)
    testimony += 2 * updates.mean(axis=0) / np.linalg.norm(updates.mean(axis=0))  # which has
    testimony[4] = 0
    assert share(merit_of(updates, public, past, testimony), 4) == pytest.approx(0.05, rel=0.1)


def test_testimony_of_nothing_changes_nothing():
    updates, public, past, _ = a_round()
    found = merit_of(updates, public, past, np.zeros((CLIENTS, SIZE))).scores
    np.testing.assert_array_equal(found, merit_of(updates, public, past).scores)
    tiny = merit_of(updates, public, past, np.full((CLIENTS, SIZE), 1e-200)).scores
    np.testing.assert_allclose(tiny, found, rtol=0.01)


def test_what_comes_true_tells_more():
    """Two clients report alike now; one of them told earlier where all go now."""
    updates, public, past, rng = a_round()
    testimony = rng.normal(size=(CLIENTS, SIZE)) / np.sqrt(SIZE)
    plain = merit_of(updates, public, past, testimony)
    foreseen = updates.mean(axis=0) - updates.mean()
    testimony[4] = foreseen / np.linalg.norm(foreseen)
    assert share(merit_of(updates, public, past, testimony), 4) > 1.1 * share(plain, 4)


def test_testimony_is_given_back_where_the_parameters_were():
    """It is scored stratum by stratum; what is kept has the order of the updates."""
    updates, public, past, _ = a_round()
    result = merit_of(updates, public, None, np.zeros((CLIENTS, SIZE)))
    lengths = np.linalg.norm(result.testimony, axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)
    cosines = np.sum(result.testimony * updates, axis=1) / np.linalg.norm(updates, axis=1)
    assert (cosines > 0.8).all(), "most of a report is its own and what is common"
    assert merit_of(updates, public, past).testimony is None, "nobody keeps it"


def test_an_account_that_copies_is_named_by_its_twin():
    updates, public, past, _ = a_round()
    updates[1], past[1] = updates[0], past[0]
    result = merit_of(updates, public, past)
    assert result.flags[:2] == (Flag(Kind.COPY, twin="1"), Flag(Kind.COPY, twin="0"))
