"""The panel in Flower: unchanged clients, the same metrics, one node that trains the wrong way."""

import random

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from fedmerit import Kind, Ledger, Panel
from fedmerit.flower import FedMerit
from fedmerit.flower.local import LocalGrid

NODES = list(range(10, 20))
BAD = 13
SIZE = 600
TARGET = np.random.default_rng(5).normal(size=SIZE).astype(np.float32)


def quality(vector):
    return float(1 / (1 + np.mean((vector - TARGET) ** 2)))


class Clients:
    """Nodes that know nothing of a panel: they train, and they evaluate what they are sent."""

    def __init__(self, bad=(BAD,), answer=None):
        self.bad, self.answer = bad, answer
        self.evaluated = []
        self.grid = LocalGrid({node: lambda m, node=node: self.reply(node, m) for node in NODES})

    def reply(self, node, message):
        model = message.content["arrays"]["w"].numpy()
        if message.metadata.message_type == "evaluate":
            self.evaluated.append((node, model))
            found = {"num-examples": node, "eval_acc": quality(model)}
            if self.answer is not None:
                found["eval_acc"] = self.answer(node, found["eval_acc"])
            return Message(RecordDict({"metrics": MetricRecord(found)}), reply_to=message)
        rng = np.random.default_rng([node, message.content["config"]["server-round"]])
        step = 0.2 * (TARGET - model) * (-2 if node in self.bad else 1)
        new = (model + step + 0.02 * rng.normal(size=SIZE)).astype(np.float32)
        content = {
            "arrays": ArrayRecord({"w": Array(new)}),
            "metrics": MetricRecord({"num-examples": 10}),
        }
        return Message(RecordDict(content), reply_to=message)


def run(strategy, clients, rounds=6):
    random.seed(4)
    start = ArrayRecord({"w": Array(np.zeros(SIZE, np.float32))})
    return strategy.start(clients.grid, start, num_rounds=rounds)


def with_panel(**settings):
    return FedMerit(panel=Panel("eval_acc", pairs=2), scorer=None, seed=1, **settings)


def test_a_node_that_trains_the_wrong_way_is_found_and_kept_out(tmp_path):
    path, clients = tmp_path / "run.ledger", Clients()
    strategy = with_panel(ledger=path)
    run(strategy, clients)
    with Ledger.open(path) as ledger:
        *_, last = ledger.rounds()
    by_client = {entry.client: entry for entry in last.clients}
    assert by_client[str(BAD)].flag.kind is Kind.HARMS
    assert by_client[str(BAD)].weight == 0
    assert by_client[str(BAD)].value < 0
    assert all(by_client[str(node)].flag is None for node in NODES if node != BAD)
    inside = sum(entry.value for entry in last.clients if entry.weight > 0)
    assert inside == pytest.approx(last.metrics["panel/gain"])


def test_what_users_see_of_the_global_model_is_what_it_was():
    """The metrics of every round are those of FedAvg, as long as nobody is kept out."""
    plain = run(FedAvg(), Clients(bad=()), 3)
    judged = run(with_panel(), Clients(bad=()), 3)
    assert judged.evaluate_metrics_clientapp == plain.evaluate_metrics_clientapp
    np.testing.assert_array_equal(judged.arrays["w"].numpy(), plain.arrays["w"].numpy())


def test_traffic_is_two_models_a_pair_and_the_first_model_once():
    clients = Clients(bad=())
    run(with_panel(), clients, 3)
    # The global model and two pairs each, and in the first round the model before it.
    assert len(clients.evaluated) == 10 * 3 * (1 + 2 * 2) + 10


@pytest.mark.parametrize(
    "answer",
    [float("nan"), 7.0, -1.0, [0.5, 0.5], None],
    ids=["nan", "high", "low", "list", "none"],
)
def test_a_judge_whose_answers_cannot_be_true_concerns_nobody_else(answer):
    def say(node, value):
        if node != 11:
            return value
        return value if answer is None else answer

    strategy = with_panel()
    run(strategy, Clients(answer=say), 6)
    assert strategy.server.harmful() == [str(BAD)]


def test_a_strategy_that_evaluates_nothing_has_no_panel():
    clients = Clients()
    run(with_panel(fraction_evaluate=0.0), clients, 2)
    assert clients.evaluated == []
