import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedmerit
from fedmerit.errors import InvalidInputError, UnknownNameError
from fedmerit.incentive.cross_group import assign_groups, cross_group_scores, pay_cross_group
from fedmerit.incentive.rewards import FeePlusBonus, PositiveShare, SoftmaxShare

RULES = [PositiveShare(budget=100_001), SoftmaxShare(budget=100_001, positive_only=False)]


def names(count: int) -> list[str]:
    return [f"client {index}" for index in range(count)]


def random_pairs(rng: np.random.Generator, clients: int) -> np.ndarray:
    matrix = rng.uniform(-0.1, 0.4, size=(clients, clients))
    np.fill_diagonal(matrix, np.nan)
    return matrix


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("combine", ["mean", "median"])
@given(seed=st.integers(0, 2**32 - 1), clients=st.integers(2, 9))
def test_a_report_moves_no_rival_in_its_own_pot(rule, combine, seed: int, clients: int) -> None:
    """Whatever client 0 reports, only its own row and column of the pairwise scores change."""
    rng = np.random.default_rng(seed)
    pairwise = random_pairs(rng, clients)
    lied = pairwise.copy()
    lied[0], lied[:, 0] = rng.uniform(-1, 1, size=(2, clients))
    honest, lying = (
        pay_cross_group(rule, matrix, names(clients), combine=combine, rng=seed)
        for matrix in (pairwise, lied)
    )
    np.testing.assert_array_equal(honest.groups, lying.groups)
    assert honest.pots == lying.pots
    rivals = np.flatnonzero(honest.groups == honest.groups[0])[1:]
    np.testing.assert_array_equal(honest.scores[rivals], lying.scores[rivals])


@given(seed=st.integers(0, 2**32 - 1), clients=st.integers(2, 9))
def test_the_budget_is_spent_to_the_last_unit(seed: int, clients: int) -> None:
    pairwise = random_pairs(np.random.default_rng(seed), clients)
    paid = pay_cross_group(RULES[1], pairwise, names(clients), rng=seed)
    assert paid.payments.total == 100_001
    assert sum(paid.pots) == 100_001
    assert abs(int((paid.groups == 0).sum()) - int((paid.groups == 1).sum())) <= 1


def test_the_split_does_not_depend_on_the_order_of_clients() -> None:
    clients = names(7)
    order = [3, 1, 6, 0, 5, 2, 4]
    groups = assign_groups(clients, rng=3)
    np.testing.assert_array_equal(assign_groups([clients[i] for i in order], rng=3), groups[order])


def test_excluded_clients_keep_their_part_of_the_pot_in_the_group() -> None:
    pairwise = random_pairs(np.random.default_rng(0), 4) + 0.2
    excluded = np.array([True, False, False, False])
    paid = pay_cross_group(PositiveShare(budget=1000), pairwise, names(4), excluded, rng=1)
    assert paid.pots == (500, 500)
    assert paid.payments.amounts[0] == 0
    assert paid.payments.total + paid.payments.unspent == 1000


def test_scores_use_pairs_across_groups_only() -> None:
    pairwise = np.array(
        [[np.nan, 9, 1, 3], [9, np.nan, 2, np.nan], [1, 2, np.nan, 9], [3, 4, 9, 0]]
    )
    found = cross_group_scores(pairwise, [0, 0, 1, 1])
    np.testing.assert_array_equal(found, [2.0, 2.0, 1.5, 3.5])


def test_what_cannot_be_scored_is_named() -> None:
    pairwise = np.full((2, 2), np.nan)
    with pytest.raises(InvalidInputError, match="got none for client 0"):
        cross_group_scores(pairwise, [0, 1])
    with pytest.raises(InvalidInputError, match=r"one row and column per client, 3, got \(2, 2\)"):
        cross_group_scores(pairwise, [0, 1, 1])
    with pytest.raises(UnknownNameError, match="did you mean 'median'"):
        cross_group_scores(pairwise, [0, 1], combine="medain")
    with pytest.raises(InvalidInputError, match="at least 2 clients, got 1"):
        assign_groups(["a"])
    with pytest.raises(InvalidInputError, match=r"shape \(2,\), got shape \(1,\)"):
        pay_cross_group(RULES[0], np.ones((2, 2)), ["a", "b"], [True])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("method", ["exact", "conditional"])
def test_with_a_real_score_a_lie_moves_nobody_in_its_own_pot(rule, method: str) -> None:
    """Report whatever you like: rivals in the same pot keep their scores to the last bit."""
    rng = np.random.default_rng(1)
    updates = rng.normal(size=600) + rng.normal(size=(7, 600))
    public = None if method == "exact" else rng.normal(size=600)
    clients = names(7)
    lies = [-updates[2], np.zeros(600), rng.normal(size=600), 100 * updates[2], updates[3]]

    def pay(matrix: np.ndarray):
        pairwise = fedmerit.score(matrix, method=method, public=public, rng=5).pairwise
        assert pairwise is not None
        return pay_cross_group(rule, pairwise, clients, rng=6)

    honest = pay(updates)
    rivals = np.flatnonzero((honest.groups == honest.groups[2]) & (np.arange(7) != 2))
    for lie in lies:
        reported = updates.copy()
        reported[2] = lie
        lying = pay(reported)
        np.testing.assert_array_equal(lying.groups, honest.groups)
        np.testing.assert_array_equal(lying.scores[rivals], honest.scores[rivals])
        # With their scores fixed, what rivals get can only move by what the liar takes or leaves.
        gained = lying.payments.amounts[2] - honest.payments.amounts[2]
        others = sum(lying.payments.amounts[i] - honest.payments.amounts[i] for i in rivals)
        assert gained == -others
        if lying.scores[2] < honest.scores[2]:
            assert gained <= 0


@pytest.mark.parametrize(
    "rule",
    [
        PositiveShare(budget=100, minimum=60),
        PositiveShare(budget=100, floor=60),
        PositiveShare(budget=100, floor=20),
        PositiveShare(budget=100, excluded_pay=60),
        FeePlusBonus(budget=100, fee=10, floor=100),
    ],
    ids=str,
)
def test_what_one_pot_can_promise_two_meet_as_far_as_they_go(rule):
    clients = [f"c{n}" for n in range(6)]
    excluded = np.array([False] * 5 + [True])
    paid = pay_cross_group(rule, np.ones((6, 6)), clients, excluded, rng=1).payments
    fees = 5 * getattr(rule, "fee", 0)
    assert paid.total + paid.unspent == 100 + fees
    assert all(amount == 0 or amount >= rule.minimum for amount in paid.amounts)
    assert paid.amounts[5] <= min(paid.amounts[:5])
