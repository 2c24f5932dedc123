"""Lengths: shortened only if far out for their round and size, and if they take over."""

import numpy as np
import pytest

from fedmerit.evidence.length import _far, growth_of, kept_share

RATE = 0.01


def kept(norms, sizes=None, weights=None, members=None, noisy=None):
    count = len(norms)
    weights = np.full(count, 1 / count) if weights is None else weights
    members = np.ones(count, dtype=bool) if members is None else members
    norms = np.asarray(norms, dtype=float)
    noisy = np.zeros(count, dtype=bool) if noisy is None else noisy

    def along(rows):
        """Who is `noisy` has one part in five that leads where the others go."""
        del rows
        return np.where(noisy, norms / 5, norms)

    return kept_share(norms, sizes, weights, members, RATE, along)


def usual(clients, spread=0.1, seed=0):
    return np.exp(spread * np.random.default_rng(seed).normal(size=clients))


@pytest.mark.parametrize("seed", range(20))
def test_honest_lengths_are_kept(seed):
    assert (kept(usual(12, 0.3, seed)) == 1).all()


@pytest.mark.parametrize(("count", "factor"), [(6, 5), (6, 100), (6, 1e6), (9, 5), (9, 100)])
def test_a_minority_that_takes_over_is_cut_to_the_usual_length(count, factor):
    norms = usual(20)
    norms[:count] *= factor
    share = kept(norms)
    assert (share[count:] == 1).all()
    np.testing.assert_allclose(norms[:count] * share[:count], np.median(norms[count:]), rtol=0.3)
    moved = norms * share
    assert moved[:count].sum() / moved.sum() == pytest.approx(count / 20, abs=0.03)


def test_one_client_that_breaks_out_without_taking_over_is_left_alone():
    norms = usual(12)
    norms[4] *= 8  # eight of nineteen
    assert (kept(norms) == 1).all()


def test_large_clients_may_send_long_updates():
    sizes = np.geomspace(50, 3000, 16)
    norms = usual(16) * sizes**0.6
    weights = sizes / sizes.sum()
    assert (kept(norms, sizes, weights) == 1).all()
    norms[3] *= 1000  # a small one sends what no size accounts for
    share = kept(norms, sizes, weights)
    assert share[3] < 0.01
    assert (np.delete(share, 3) == 1).all()


def test_a_majority_is_the_yardstick_and_not_an_outlier():
    norms = usual(10)
    norms[:6] *= 100
    assert (kept(norms)[:6] == 1).all()


def test_without_a_cohort_all_are_the_yardstick():
    norms = usual(10)
    norms[0] *= 1000
    share = kept(norms, members=np.zeros(10, dtype=bool))
    assert share[0] < 0.01
    assert (share[1:] == 1).all()


def test_few_lengths_decide_nothing():
    """Three of four may be close to each other by chance: the fourth is no outlier for that."""
    rng = np.random.default_rng(5)
    cut = sum((kept(np.exp(rng.normal(size=4))) < 1).any() for _ in range(2000))
    assert cut <= 20 + 3 * np.sqrt(20)  # 1 %


def test_a_client_that_is_larger_than_all_others_may_send_what_its_size_accounts_for():
    sizes = np.array([50.0] * 9 + [3000.0])
    norms = usual(10) * np.where(sizes > 50, 40.0, 1.0)
    assert (kept(norms, sizes, sizes / sizes.sum()) == 1).all()
    assert (kept(norms, sizes, np.full(10, 0.1)) == 1).all()


def test_a_client_that_is_smaller_than_all_others_may_send_what_they_do():
    sizes = np.array([3000.0] * 9 + [50.0])
    norms = usual(10) * np.where(sizes < 3000, 1.8, 1.0)
    weights = np.where(sizes < 3000, 0.4, 0.6 / 9)
    assert (kept(norms, sizes, weights, members=sizes > 50) == 1).all()


def test_far_is_students_prediction_interval():
    # Five values with standard deviation sqrt(2.5); t(0.05, 4) = 2.132.
    expected = 2.132 * np.sqrt(2.5) * np.sqrt(1 + 1 / 5)
    assert _far(np.arange(5.0), 0.05) == pytest.approx(expected, rel=1e-3)


def test_growth_with_size_is_seen_and_its_absence_too():
    rng = np.random.default_rng(3)
    sizes = np.geomspace(50, 3000, 14)
    grows = growth_of(sizes**0.5 * np.exp(0.1 * rng.normal(size=14)), sizes)
    assert grows.slope == pytest.approx(0.5, abs=0.05)
    assert grows.shown
    claimed = np.where(np.arange(20) < 6, 2000.0, 200.0)  # equal clients, six of whom lie
    assert not growth_of(np.exp(0.1 * rng.normal(size=20)), claimed).shown
    assert growth_of(usual(10), np.full(10, 300.0)) is None


def test_noise_makes_updates_long_and_cancels_in_a_mean():
    norms, noisy = usual(20), np.arange(20) < 5
    norms[noisy] *= 5
    assert (kept(norms)[noisy] < 1).all()
    assert (kept(norms, noisy=noisy) == 1).all()
    norms[noisy] *= 20  # now what leads where the others go is twenty times theirs
    assert (kept(norms, noisy=noisy)[noisy] < 1).all()
