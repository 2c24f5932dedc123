"""Who can be told from somebody who worked: against the cohort's own level, at a stated rate."""

import numpy as np
import pytest

from fedmerit.evidence.cohort import abstained, alike_pairs, explained_reports, lack_of_power
from fedmerit.evidence.decisions import far_below, student_quantile, student_tail
from fedmerit.flags import Kind

RATE = 0.01


@pytest.mark.parametrize(
    ("tail", "freedom", "expected"),
    # Tables of Student's t, as in any textbook.
    [(0.05, 1, 6.314), (0.025, 4, 2.776), (0.005, 10, 3.169), (0.0005, 3, 12.924)],
)
def test_student_quantiles_are_those_of_the_tables(tail, freedom, expected):
    assert student_quantile(tail, freedom) == pytest.approx(expected, abs=6e-4)


def test_student_tail_is_symmetric_and_falls():
    assert student_tail(0.0, 7) == pytest.approx(0.5)
    assert student_tail(-1.5, 7) == pytest.approx(1 - student_tail(1.5, 7))
    tails = [student_tail(t, 5) for t in (0.5, 1.0, 4.0, 40.0)]
    assert tails == sorted(tails, reverse=True)


def test_far_below_is_students_prediction_interval():
    # Five values with mean 0 and standard deviation sqrt(2.5); t(0.05, 4) = 2.132.
    others, limit = np.arange(-2.0, 3.0), -2.132 * np.sqrt(2.5) * np.sqrt(1 + 1 / 5)
    assert far_below(1.001 * limit, others, 0.05)
    assert not far_below(0.999 * limit, others, 0.05)


@pytest.mark.parametrize("level", [0.05, 0.45, 0.75])
def test_honest_reports_are_not_explained_whatever_their_level(level):
    rng = np.random.default_rng(1)
    everybody = np.ones(12, dtype=bool)
    flagged = sum(
        explained_reports(
            1 - (1 - level) * np.exp(0.2 * rng.normal(size=12)), everybody, 0.5, RATE
        ).any()
        for _ in range(500)
    )
    assert flagged <= 15  # 1 % of 500 rounds, and three standard deviations


def test_a_replay_is_explained_whatever_the_level_of_the_others():
    for level in (0.05, 0.75):
        shares = np.full(8, level) + np.linspace(0, 0.02, 8)
        shares[3] = 1.0
        members = np.arange(8) != 3
        assert explained_reports(shares, members, 0.5, RATE).tolist() == [
            client == 3 for client in range(8)
        ]


def test_an_outlier_that_is_mostly_private_is_no_replay():
    shares = np.full(10, 0.06)
    shares[0] = 0.17  # far out for such a tight round, but five sixths are its own
    assert not explained_reports(shares, np.ones(10, dtype=bool), 0.5, RATE).any()


def test_without_three_members_only_what_is_nothing_but_public_is_flagged():
    shares = np.array([0.1, 0.1, 0.95, 1.0])
    members = np.array([True, True, False, False])
    assert explained_reports(shares, members, 0.5, RATE).tolist() == [False, False, False, True]


def test_half_of_the_reports_may_be_replays():
    shares = np.array([0.1, 0.12, 0.09, 0.11, 0.1, 0.8, 0.9, 0.99, 1.0, 1.0])
    members = np.arange(10) < 5
    assert explained_reports(shares, members, 0.5, RATE).tolist() == [False] * 5 + [True] * 5


def test_clients_that_move_alike_are_no_copies_of_each_other():
    rng = np.random.default_rng(2)
    difference = 0.01 * np.exp(0.3 * rng.normal(size=(8, 8)))
    cosine = 1 - (difference + difference.T) / 2
    np.fill_diagonal(cosine, 1.0)
    assert (cosine > 0.98).sum() > 30
    everybody = np.ones(8, dtype=bool)
    assert not alike_pairs(cosine, everybody, RATE).any()
    cosine[2, 5] = cosine[5, 2] = 1 - 1e-6
    assert np.argwhere(alike_pairs(cosine, everybody, RATE)).tolist() == [
        [2, 5],
        [5, 2],
    ]


def test_of_three_clients_no_two_are_called_copies():
    cosine = np.array([[1.0, 1 - 1e-9, 0.99], [1 - 1e-9, 1.0, 0.989], [0.99, 0.989, 1.0]])
    assert not alike_pairs(cosine, np.ones(3, dtype=bool), RATE).any()


def test_few_parameters_judge_nobody_and_say_what_is_needed():
    assert lack_of_power(200, None) == ""
    assert lack_of_power(130, np.zeros((12, 130))) == ""
    words = lack_of_power(31, np.zeros((12, 31)))
    assert words == ("31 parameters and 12 public vectors: at least 130 parameters needed to judge")
    result = abstained("merit", 3, words)
    assert {flag.kind for flag in result.flags} == {Kind.UNDECIDED}
    assert result.eligible.all()
    assert not result.flagged.any()
    assert len(set(result.scores.tolist())) == 1
    assert result.z is None  # nothing to bet on
