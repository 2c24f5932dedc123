"""Same updates in, same scores out: the simulator, Flower and the plain library, bit for bit."""

from dataclasses import dataclass

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

import fedmerit
from fedmerit.behaviours import Assignment, Behaviour, Report
from fedmerit.flower import FedMerit
from fedmerit.flower.local import LocalGrid
from fedmerit.ledger import Ledger
from fedmerit.rng import stream
from fedmerit.scorers import Merit, PublishedPCA
from fedmerit.server import RoundRules
from fedmerit.simulation.config import FederationConfig, ModelChoice
from fedmerit.simulation.data.datasets import load
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.training.settings import LocalTraining

SEED, ROUNDS, USERS = 11, 3, 6
FIRST = 50  # node ids; users are 0, 1, ...


@dataclass(frozen=True)
class AsSent(Behaviour):
    """Sends a model, as Flower's clients do: the update is what is left after rounding."""

    name = "as-sent"

    def report(self, view):
        model = view.global_model + view.trained
        SENT[view.round, view.client] = model
        return Report(model - view.global_model, view.num_examples)


SENT = {}


class Everybody(Assignment):
    def assign(self, clients, rng):
        del rng
        return (AsSent(),) * clients


def simulate(rules):
    config = FederationConfig(
        users=USERS,
        per_round=USERS,
        rounds=ROUNDS,
        seed=SEED,
        model=ModelChoice(hidden=20, dropout=0.0),
        training=LocalTraining(epochs=1),
        behaviours=Everybody(),
        rules=rules,
    )
    federation = Federation(config, load("digits"))
    state, records = federation.start(), []
    models, histories = [state.model], [state.server.history]
    while state.round < ROUNDS:
        state, record = federation.step(state)
        records.append(record)
        models.append(state.model)
        histories.append(state.server.history)
    return federation, records, models, histories


def flower(federation, strategy):
    network = federation.network

    def cut(vector):
        arrays, start = {}, 0
        for name, shape in network.shapes.items():
            arrays[name] = Array(vector[start : start + network.sizes[name]].reshape(shape))
            start += network.sizes[name]
        return ArrayRecord(arrays)

    def node(client):
        def reply(message):
            model = SENT[message.content["config"]["server-round"], client]
            examples = MetricRecord({"num-examples": len(federation.task.parts[client])})
            return Message(
                RecordDict({"arrays": cut(model), "metrics": examples}), reply_to=message
            )

        return reply

    # Replies arrive in another order than that of the node ids.
    grid = LocalGrid({FIRST + client: node(client) for client in reversed(range(USERS))})
    result = strategy.start(grid, cut(federation.start().model), num_rounds=ROUNDS)
    return np.concatenate([array.numpy().reshape(-1) for array in result.arrays.values()])


def facts(record, first=0):
    return [
        (int(c.client) - first, c.score, c.weight, c.p_value, c.flagged, c.reason, c.num_examples)
        for c in record.clients
    ]


@pytest.mark.parametrize(
    "rules",
    [
        RoundRules(Merit(), "gated", norm_bound=1.5),
        RoundRules(PublishedPCA(), "score"),
        RoundRules(PublishedPCA(), "score", rule="median"),
    ],
    ids=["merit", "fed-pca", "med-pca"],
)
def test_simulator_flower_and_library_agree_to_the_last_bit(rules):
    federation, simulated, models, histories = simulate(rules)
    records = []
    strategy = FedMerit(fraction_evaluate=0.0, rules=rules, seed=SEED, record=records.append)
    final = flower(federation, strategy)
    for ours, theirs in zip(records, simulated, strict=True):
        assert facts(ours, FIRST) == facts(theirs)
    np.testing.assert_array_equal(final, models[-1])

    last = ROUNDS - 1  # the library, given what the server knew before the last round
    history = histories[last]
    updates = np.stack([SENT[ROUNDS, c] - models[last] for c in range(USERS)])
    remembered = {}
    if isinstance(rules.scorer, Merit):
        remembered = {
            "previous": np.stack([history.previous[str(c)] for c in range(USERS)]),
            "testimony": np.stack([history.testimony[str(c)] for c in range(USERS)]),
            "trust": [history.trust[str(c)] for c in range(USERS)],
            "rounds": [history.wealth[str(c)].rounds for c in range(USERS)],
        }
    result = fedmerit.score(
        updates,
        method=rules.scorer,
        public=history.public,
        layers=federation.network.layers,
        rng=stream(SEED, "round", ROUNDS, "scoring"),
        **remembered,
    )
    assert result.scores.tolist() == [client.score for client in records[-1].clients]


def test_where_flower_combines_the_simulator_differs_by_rounding_only():
    federation, simulated, models, _ = simulate(RoundRules())
    records = []
    strategy = FedMerit(fraction_evaluate=0.0, seed=SEED, record=records.append)
    final = flower(federation, strategy)
    assert facts(records[0], FIRST) == facts(simulated[0])  # both started from the same model
    for ours, theirs in zip(records[1:], simulated[1:], strict=True):
        for mine, other in zip(facts(ours, FIRST), facts(theirs), strict=True):
            # Who, weight, flag, reason, size; a score counts signs, and those of zeros may turn.
            assert (mine[0], mine[2], mine[4:]) == (other[0], other[2], other[4:])
            assert mine[1] == pytest.approx(other[1], abs=1e-3)
    np.testing.assert_allclose(final, models[-1], atol=1e-6)


def test_every_round_is_in_a_ledger_that_verifies(tmp_path):
    federation, _, _, _ = simulate(RoundRules())
    path = tmp_path / "run.ledger"
    strategy = FedMerit(fraction_evaluate=0.0, ledger=path, seed=SEED)
    flower(federation, strategy)
    flower(federation, strategy)  # the same ledger: the run is continued
    flower(federation, FedMerit(fraction_evaluate=0.0, ledger=path, resume=False))
    with Ledger.open(path) as ledger:
        assert ledger.verify().ok
        assert [run.rounds for run in ledger.runs()] == [2 * ROUNDS, ROUNDS]
        assert [run.config["strategy"] for run in ledger.runs()] == ["FedMerit(FedAvg)"] * 2
        assert ledger.runs()[0].config["engine"] == "flower"


def test_the_rounds_metrics_are_a_summary_and_name_every_client_if_asked():
    federation, _, _, _ = simulate(RoundRules())
    records, metrics = [], []

    class Listening(FedMerit):
        def aggregate_train(self, server_round, replies):
            arrays, found = super().aggregate_train(server_round, replies)
            metrics.append(found)
            return arrays, found

    flower(federation, Listening(fraction_evaluate=0.0, seed=SEED))
    assert metrics[-1] == {"clients": USERS, "flagged": 0, "rejected": 0}  # no line per client
    named = {"record": records.append, "client_metrics": True}
    flower(federation, Listening(fraction_evaluate=0.0, seed=SEED, **named))
    for client in records[-1].clients:
        assert metrics[-1][f"score/{client.client}"] == client.score
        assert metrics[-1][f"weight/{client.client}"] == client.weight
        assert metrics[-1][f"p-value/{client.client}"] == client.p_value
        assert metrics[-1][f"flagged/{client.client}"] == client.flagged
