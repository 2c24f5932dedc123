"""What every engine's round has in common, by the engine's weights and by gated ones."""

import numpy as np
import pytest

from fedmerit.errors import FedMeritError, InvalidInputError
from fedmerit.flags import Flag, Kind
from fedmerit.incentive.rewards import PositiveShare
from fedmerit.scorers import Merit
from fedmerit.server.history import RoundHistory
from fedmerit.server.judging import combine_round, judge_round, scoring_stream
from fedmerit.server.replies import Replies
from fedmerit.server.rules import RoundRules
from fedmerit.types import Rejection
from tests.conftest import example_round

GATED = {"weighting": "gated", "norm_bound": 1.5}
WAYS = pytest.mark.parametrize("way", [{}, GATED], ids=["engine", "gated"])


def judge(updates, rules, rejected=(), model=None):
    model = np.zeros(updates.shape[1], dtype=np.float32) if model is None else model
    history = RoundHistory().published(model)
    replies = Replies([f"c{row}" for row in range(len(updates))], updates, [10] * len(updates))
    return judge_round(rules, history, replies, scoring_stream(1, 1), rejected=rejected)


@WAYS
def test_an_absurd_update_is_turned_away_and_changes_nothing_for_the_others(way):
    rules = RoundRules(**way)
    updates = example_round(clients=6, parameters=4000, riders=0)
    absurd = np.vstack([updates, updates[:1] * np.float32(1e9)])
    with_it, without = judge(absurd, rules), judge(updates, rules)
    assert [refusal.client for refusal in with_it.rejected] == ["c6"]
    assert "norm must be at most" in with_it.rejected[0].reason
    np.testing.assert_array_equal(combine_round(rules, with_it), combine_round(rules, without))
    assert with_it.clients == without.clients


def test_of_replies_that_are_not_finite_none_is_judged():
    judged = judge(np.full((3, 4000), np.nan, dtype=np.float32), RoundRules())
    assert [refusal.client for refusal in judged.rejected] == ["c0", "c1", "c2"]
    assert judged.skipped
    assert not judged.clients


def test_a_majority_of_tiny_reports_cannot_turn_away_those_who_work():
    updates = example_round(clients=6, parameters=4000, riders=0)
    updates[2:] *= np.float32(1e-6)
    judged = judge(updates, RoundRules(), model=np.ones(4000, dtype=np.float32))
    assert judged.rejected == ()


def test_a_single_reply_is_taken_as_fedavg_takes_it():
    updates = example_round(clients=6, parameters=400)[:1]
    judged = judge(updates, RoundRules(reward="positive:budget=10"))
    (client,) = judged.clients
    assert (client.weight, client.flag.kind, client.reward) == (1.0, Kind.UNDECIDED, None)
    np.testing.assert_array_equal(combine_round(RoundRules(), judged), updates[0])


@pytest.mark.parametrize(("clients", "weighting"), [(0, "engine"), (0, "gated"), (1, "gated")])
def test_a_round_that_nobody_can_be_compared_in_is_skipped(clients, weighting):
    updates = example_round(clients=6, parameters=400)[:clients]
    judged = judge(updates, RoundRules(weighting=weighting), rejected=[Rejection("x", "late")])
    assert judged.skipped
    assert judged.clients == ()
    assert [(refusal.client, refusal.kind) for refusal in judged.rejected] == [
        ("x", Kind.REFUSED),
        ("c0", Kind.SKIPPED),
    ][: clients + 1]


def test_a_client_with_two_refused_replies_is_paid_once():
    rules = RoundRules(reward=PositiveShare(budget=1000, excluded_pay=10))
    updates = example_round(clients=6, parameters=4000, riders=0)
    refused = [Rejection("x", "late"), Rejection("x", "late again"), Rejection("c0", "twice")]
    settled = judge(updates, rules, refused)
    paid = [client for client in settled.clients if client.client == "x"]
    assert [client.reward for client in paid] == [10]
    assert sum(client.client == "c0" for client in settled.clients) == 1
    assert sum(client.reward for client in settled.clients) == 1000


@pytest.mark.parametrize(
    "settings",
    [
        {"weighting": "loud"},
        {"rule": "krum"},
        {"scorer": None, "weighting": "gated"},
        {"scorer": None, "weighting": "score"},
        {"scorer": None, "reward": "positive:budget=100"},
        {"scorer": Merit},
        {"norm_bound": 0},
        {"alpha": -1},
    ],
)
def test_rules_check_themselves(settings):
    with pytest.raises(FedMeritError):
        RoundRules(**settings)


@WAYS
def test_a_rider_is_named_unpaid_and_heard_again_when_it_works(way):
    rules, rng = RoundRules(**way), np.random.default_rng(3)
    history = RoundHistory()
    model, last = np.zeros(4000, dtype=np.float32), np.zeros(4000, dtype=np.float32)
    names, weights, flags = [f"c{row}" for row in range(8)], [], []
    for number in range(1, 9):
        history = history.published(model)
        updates = 0.002 * (rng.normal(size=4000) + 0.5 * rng.normal(size=(8, 4000)))
        updates = updates.astype(np.float32)
        if number <= 3:
            updates[7] = last
        replies = Replies(names, updates, [10] * 8)
        settled = judge_round(rules, history, replies, scoring_stream(1, number))
        history, last = settled.history, combine_round(rules, settled)
        model = model + last
        weights.append(settled.clients[7].weight)
        flags.append(settled.clients[7].flag)
    assert weights[:4] == [0.0] * 4
    assert flags[3] == Flag(Kind.NAMED)
    assert weights[-1] > 0.05
    assert flags[-1] is None
    assert min(client.weight for client in settled.clients) > 0.05


def test_the_scorer_says_at_what_rate_clients_are_named():
    assert RoundRules().needs.naming == Merit().naming > 0
    assert RoundRules(Merit(naming=0)).needs.naming == 0
    assert RoundRules(Merit(naming=0.05)).needs.naming == 0.05
    with pytest.raises(FedMeritError, match="naming must be less than 1, got 1"):
        Merit(naming=1)


@pytest.mark.parametrize(
    ("clients", "sizes", "match"),
    [
        (["a", "b"], [1, 1, 1], "clients must have one entry a row, 3, got 2"),
        (["a", "b", "c"], [1, 1], "num_examples must have one entry a row, 3, got 2"),
        (["a", "b", "a"], [1, 1, 1], "clients must have different names, got 'a' twice"),
    ],
)
def test_replies_have_a_name_and_a_size_each(clients, sizes, match):
    with pytest.raises(InvalidInputError, match=match):
        Replies(clients, np.zeros((3, 4)), sizes)


def test_a_round_needs_the_model_that_clients_started_from():
    replies = Replies(["a", "b"], np.ones((2, 400)), [1, 1])
    with pytest.raises(InvalidInputError, match="must have the model that clients started from"):
        judge_round(RoundRules(), RoundHistory(), replies, scoring_stream(0, 1))
