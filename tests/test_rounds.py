"""What every engine's round has in common."""

import numpy as np
import pytest

from fedmerit.errors import FedMeritError
from fedmerit.incentive.rewards import PositiveShare
from fedmerit.server.rounds import Replies, RoundRules, layer_numbers, scoring_stream, settle_round
from fedmerit.scorers import Merit
from fedmerit.types import Rejection
from tests.conftest import example_round


def settle(updates, rules=None, rejected=(), model=None):
    rules = RoundRules() if rules is None else rules
    model = np.zeros(updates.shape[1], dtype=np.float32) if model is None else model
    history = rules.fresh_history().published(model)
    replies = Replies([f"c{row}" for row in range(len(updates))], updates, [10] * len(updates))
    return settle_round(rules, history, replies, scoring_stream(1, 1), rejected=rejected)


def test_an_absurd_update_is_turned_away_and_changes_nothing_for_the_others():
    updates = example_round(clients=6, parameters=4000, riders=0)
    absurd = np.vstack([updates, updates[:1] * np.float32(1e9)])
    with_it, without = settle(absurd), settle(updates)
    assert [refusal.client for refusal in with_it.rejected] == ["c6"]
    assert "norm must be at most" in with_it.rejected[0].reason
    np.testing.assert_array_equal(with_it.change, without.change)
    assert with_it.clients == without.clients


def test_a_majority_of_tiny_reports_cannot_turn_away_those_who_work():
    updates = example_round(clients=6, parameters=4000, riders=0)
    updates[2:] *= np.float32(1e-6)
    settled = settle(updates, model=np.ones(4000, dtype=np.float32))
    assert settled.rejected == ()


@pytest.mark.parametrize("clients", [0, 1])
def test_a_round_that_nobody_can_be_compared_in_is_skipped(clients):
    updates = example_round(clients=6, parameters=400)[:clients]
    settled = settle(updates, rejected=[Rejection("x", "late")])
    assert settled.change is None
    assert settled.clients == ()
    assert [refusal.client for refusal in settled.rejected] == ["x", "c0"][: clients + 1]


def test_a_client_with_two_refused_replies_is_paid_once():
    rules = RoundRules(reward=PositiveShare(budget=1000, excluded_pay=10))
    updates = example_round(clients=6, parameters=4000, riders=0)
    refused = [Rejection("x", "late"), Rejection("x", "late again"), Rejection("c0", "twice")]
    settled = settle(updates, rules, refused)
    paid = [client for client in settled.clients if client.client == "x"]
    assert [client.reward for client in paid] == [10]
    assert sum(client.client == "c0" for client in settled.clients) == 1
    assert sum(client.reward for client in settled.clients) == 1000


def test_a_weight_and_its_bias_share_a_layer_and_plain_names_do_not():
    assert layer_numbers({"a.weight": 2, "a.bias": 1, "b": 1, "c": 2}).tolist() == [
        0,
        0,
        0,
        1,
        2,
        2,
    ]


@pytest.mark.parametrize(
    "settings",
    [{"weighting": "loud"}, {"rule": "krum"}, {"scorer": None}, {"norm_bound": 0}, {"alpha": -1}],
)
def test_rules_check_themselves(settings):
    with pytest.raises(FedMeritError):
        RoundRules(**settings)


def test_a_rider_is_named_unpaid_and_heard_again_when_it_works():
    rules, rng = RoundRules(), np.random.default_rng(3)
    history = rules.fresh_history()
    assert history.naming == Merit().naming
    model, last = np.zeros(4000, dtype=np.float32), np.zeros(4000, dtype=np.float32)
    names, weights, reasons = [f"c{row}" for row in range(8)], [], []
    for number in range(1, 9):
        history = history.published(model)
        updates = 0.002 * (rng.normal(size=4000) + 0.5 * rng.normal(size=(8, 4000)))
        updates = updates.astype(np.float32)
        if number <= 3:
            updates[7] = last
        replies = Replies(names, updates, [10] * 8)
        settled = settle_round(rules, history, replies, scoring_stream(1, number))
        history, last = settled.history, settled.change
        model = model + last
        weights.append(settled.clients[7].weight)
        reasons.append(settled.clients[7].reason)
    assert weights[:4] == [0.0] * 4
    assert reasons[3] == "has not worked in earlier rounds"
    assert weights[-1] > 0.05
    assert reasons[-1] == ""
    assert min(client.weight for client in settled.clients) > 0.05


def test_naming_reaches_the_history():
    assert RoundRules(Merit(naming=0)).fresh_history().naming == 0
    assert RoundRules(Merit(naming=0.05)).fresh_history().naming == 0.05
    with pytest.raises(FedMeritError, match="naming must be less than 1, got 1"):
        Merit(naming=1)
