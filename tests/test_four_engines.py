"""One federation through every engine: Server, the simulator, Flower and FLARE."""

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from fedmerit import RoundRules, Server
from fedmerit.behaviours import Assignment, Behaviour, Report
from fedmerit.flower import FedMerit
from fedmerit.flower.local import LocalGrid
from fedmerit.simulation.config import FederationConfig, ModelChoice
from fedmerit.simulation.data.datasets import load
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.training.settings import LocalTraining

SEED, ROUNDS, USERS, RIDER = 11, 3, 7, 6
FIRST = 50  # Flower's node ids; users are 0, 1, ...
REWARD = "positive:budget=1000"
RULES = {
    "gated": RoundRules(weighting="gated", norm_bound=3.0, reward=REWARD),
    "default": RoundRules(reward=REWARD),
}
pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")


@dataclass(frozen=True)
class AsSent(Behaviour):
    """Sends a model, as clients do: the update is the difference to it, which leads back to it.

    The rider sends the global update before, from round 2 on.
    """

    name = "as-sent"

    def report(self, view):
        update = view.trained
        if view.client == RIDER and (view.round - 1, RIDER) in SENT:
            update = view.global_model - MODELS[view.round - 1]
        MODELS[view.round] = view.global_model
        model = view.global_model + update
        while not np.array_equal(view.global_model + (model - view.global_model), model):
            model = view.global_model + (model - view.global_model)
        SENT[view.round, view.client] = model
        return Report(model - view.global_model, view.num_examples)


SENT, MODELS = {}, {}


class InOrder(LocalGrid):
    """Replies come in the order of node ids, which Flower draws."""

    def send_and_receive(self, messages, *, timeout=None):
        in_order = sorted(messages, key=lambda message: message.metadata.dst_node_id)
        return super().send_and_receive(in_order, timeout=timeout)


class Everybody(Assignment):
    def assign(self, clients, rng):
        del rng
        return (AsSent(),) * clients


@dataclass(frozen=True)
class Run:
    federation: Federation
    records: list
    models: list
    sent: dict
    sizes: dict

    def cut(self, vector):
        arrays, start, network = {}, 0, self.federation.network
        for name, shape in network.shapes.items():
            arrays[name] = vector[start : start + network.sizes[name]].reshape(shape)
            start += network.sizes[name]
        return arrays


@pytest.fixture(scope="module", params=RULES)
def simulated(request):
    SENT.clear()
    MODELS.clear()
    config = FederationConfig(
        users=USERS,
        per_round=USERS,
        rounds=ROUNDS,
        seed=SEED,
        model=ModelChoice(hidden=20, dropout=0.0),
        training=LocalTraining(epochs=1),
        behaviours=Everybody(),
        rules=RULES[request.param],
        models=True,
    )
    federation = Federation(config, load("digits"))
    state, records = federation.start(), []
    models = [state.model]
    while state.round < ROUNDS:
        state, record = federation.step(state, evaluate=False)
        records.append(record)
        models.append(state.model)
    sizes = {client: len(federation.task.parts[client]) for client in range(USERS)}
    return request.param, Run(federation, records, models, dict(SENT), sizes)


def row(client, first=0):
    """What a record says of a client, but for what only a simulator knows."""
    flag = client.flag and (client.flag.kind, client.flag.detail, bool(client.flag.twin))
    return {
        "client": int(client.client) - first,
        "score": client.score,
        "weight": client.weight,
        "p_value": client.p_value,
        "flag": flag,
        "reward": client.reward,
        "num_examples": client.num_examples,
    }


def facts(records, first=0):
    return [[row(client, first) for client in record.clients] for record in records]


def flat(arrays):
    return np.concatenate([np.asarray(array).reshape(-1) for array in arrays.values()])


def test_the_federation_has_something_to_say(simulated):
    _, run = simulated
    last = {client.client: client for client in run.records[-1].clients}
    assert last[str(RIDER)].flagged
    assert last[str(RIDER)].weight == last[str(RIDER)].reward == 0
    assert sum(client.reward for client in last.values()) == 1000
    assert sum(client.flagged for client in last.values()) < USERS / 2


def test_server_and_simulator_agree_to_the_last_bit(simulated):
    name, run = simulated
    records = []
    with Server(run.cut(run.models[0]), rules=RULES[name], seed=SEED, record=records.append) as s:
        for number in range(1, ROUNDS + 1):
            np.testing.assert_array_equal(flat(s.model), run.models[number - 1])
            s.settle({c: run.cut(run.sent[number, c]) for c in range(USERS)}, run.sizes)
    np.testing.assert_array_equal(flat(s.model), run.models[-1])
    assert facts(records) == facts(run.records)
    assert [r.agreement for r in records] == [r.agreement for r in run.records]


def test_flower_agrees_to_the_last_bit(simulated):
    name, run = simulated

    def node(client):
        def reply(message):
            model = run.cut(run.sent[message.content["config"]["server-round"], client])
            arrays = ArrayRecord({n: Array(values) for n, values in model.items()})
            examples = MetricRecord({"num-examples": run.sizes[client]})
            return Message(RecordDict({"arrays": arrays, "metrics": examples}), reply_to=message)

        return reply

    records = []
    strategy = FedMerit(fraction_evaluate=0.0, rules=RULES[name], seed=SEED, record=records.append)
    # FedAvg adds up replies as they come; our own rules do not depend on their order.
    kind = InOrder if name == "default" else LocalGrid
    grid = kind({FIRST + client: node(client) for client in reversed(range(USERS))})
    first = ArrayRecord({n: Array(values) for n, values in run.cut(run.models[0]).items()})
    final = strategy.start(grid, first, num_rounds=ROUNDS).arrays
    vector = np.concatenate([array.numpy().reshape(-1) for array in final.values()])
    assert facts(records, FIRST) == facts(run.records)
    np.testing.assert_array_equal(vector, run.models[-1])


@pytest.mark.skipif(find_spec("nvflare") is None, reason="needs NVIDIA FLARE")
def test_flare_agrees(simulated):
    from nvflare.apis.client import Client
    from nvflare.apis.dxo import DXO, DataKind, MetaKey
    from nvflare.apis.fl_constant import ServerCommandKey
    from nvflare.apis.fl_context import FLContext
    from nvflare.app_common.abstract.model import ModelLearnableKey, make_model_learnable
    from nvflare.app_common.app_constant import AppConstants
    from nvflare.app_common.shareablegenerators.full_model_shareable_generator import (
        FullModelShareableGenerator,
    )

    from fedmerit.nvflare import MeritAggregator

    name, run = simulated
    records, context = [], FLContext()
    aggregator = MeritAggregator(rules=RULES[name], seed=SEED, record=records.append)

    def put(key, value):
        context.set_prop(key, value, private=True, sticky=False)

    put(AppConstants.GLOBAL_MODEL, make_model_learnable(run.cut(run.models[0]), {}))
    for number in range(1, ROUNDS + 1):
        put(AppConstants.CURRENT_ROUND, number)
        for client in reversed(range(USERS)):
            meta = {MetaKey.NUM_STEPS_CURRENT_ROUND: run.sizes[client]}
            sent = DXO(DataKind.WEIGHTS, run.cut(run.sent[number, client]), meta).to_shareable()
            sent.add_cookie(AppConstants.CONTRIBUTION_ROUND, number)
            sent.set_header(ServerCommandKey.FL_CLIENT, Client(str(client), "token"))
            assert aggregator.accept(sent, context)
        result = aggregator.aggregate(context)
        learnable = FullModelShareableGenerator().shareable_to_learnable(result, context)
        put(AppConstants.GLOBAL_MODEL, learnable)
    final = flat(context.get_prop(AppConstants.GLOBAL_MODEL)[ModelLearnableKey.WEIGHTS])
    assert facts(records) == facts(run.records)
    np.testing.assert_array_equal(final, run.models[-1])
