"""Flower's well-known kinds of apps, in our own words, with the documented change only.

The change is one line: ``FedMerit(...)`` for ``FedAvg(...)``, or ``FedMerit(strategy)`` around a
strategy of one's own. What a user then sees is what docs/flower.md says. An app that trains
adapters of a transformer is in tests/test_examples.py.
"""

import logging
import random
from collections import OrderedDict

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAdagrad, FedAvg, Result
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from torch import nn

from fedmerit.flags import Kind
from fedmerit.flower import FedMerit
from fedmerit.flower.local import LocalGrid
from fedmerit.ledger import Ledger
from tests.flower.federation import assert_same

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
CLIENTS, ROUNDS, FIRST = 8, 3, 100
RIDER = FIRST + CLIENTS - 1


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run_app(client_app, server_app, *, rider=None):
    """Run an app inside this process; the last node's answers may be taken over by a rider."""

    def node(number):
        context = Context(1, number, {"partition-id": number - FIRST}, RecordDict(), {})

        def reply(message):
            answer = client_app(message, context)
            trains = message.metadata.message_type == "train"
            if number != RIDER or rider is None or not trains:
                return answer
            sent = {name: array.numpy() for name, array in message.content["arrays"].items()}
            arrays = ArrayRecord({name: Array(values) for name, values in rider(sent).items()})
            content = RecordDict({**answer.content, "arrays": arrays})
            return Message(content, reply_to=message)

        return reply

    random.seed(4)  # Flower shuffles the nodes, and sums depend on the order
    grid = LocalGrid({FIRST + n: node(FIRST + n) for n in range(CLIENTS)})
    server_app(grid, Context(1, 0, {}, RecordDict(), {}))


def noise(model):
    rng = np.random.default_rng(0)
    return {k: (v + rng.normal(0, 0.05, v.shape)).astype(v.dtype) for k, v in model.items()}


def digits(part):
    x, y = load_digits(return_X_y=True)
    mine = np.array_split(np.random.default_rng(0).permutation(len(y)), CLIENTS)[part]
    return torch.tensor(x[mine] / 16, dtype=torch.float32), torch.tensor(y[mine])


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def torch_client(train):
    """Return a client that loads the state dict, trains, and sends it back."""
    app = ClientApp()

    @app.train()
    def fit(message, context):
        net = network()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        x, y = digits(context.node_config["partition-id"])
        loss = train(net, x, y)
        content = {
            "arrays": ArrayRecord(net.state_dict()),
            "metrics": MetricRecord({"train_loss": loss, "num-examples": len(y)}),
        }
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        net = network()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        x, y = digits(context.node_config["partition-id"])
        with torch.no_grad():
            accuracy = (net(x).argmax(1) == y).float().mean().item()
        metrics = MetricRecord({"eval_acc": accuracy, "num-examples": len(y)})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def sgd(net, x, y):
    optimiser, loss = torch.optim.SGD(net.parameters(), lr=0.5), None
    for _ in range(20):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimiser.step()
    return loss.item()


def server(strategy, arrays, found):
    """Return a server app that starts a strategy and keeps its result."""
    app = ServerApp()

    @app.main()
    def main(grid, _context):
        found.append(strategy.start(grid=grid, initial_arrays=arrays, num_rounds=ROUNDS))

    return app


def run_both(client, plain, ours, arrays, *, rider=None):
    """Run an app as it was and with the change; return both results and the rounds."""
    results = []
    run_app(client, server(plain, arrays, results))
    run_app(client, server(ours, arrays, results), rider=rider)
    return results


def flagged(records):
    return {c.client for record in records for c in record.clients if c.flagged}


def test_pytorch_images_with_fedmerit_in_place_of_fedavg():
    arrays, records = ArrayRecord(network().state_dict()), []
    settings = {"fraction_train": 1.0, "min_available_nodes": CLIENTS}
    plain, ours = run_both(
        torch_client(sgd), FedAvg(**settings), FedMerit(**settings, record=records.append), arrays
    )
    assert_same(ours.arrays, plain.arrays)  # nobody is excluded: nothing changes
    assert not flagged(records)
    for number in range(1, ROUNDS + 1):
        told = ours.train_metrics_clientapp[number]
        assert told["train_loss"] == plain.train_metrics_clientapp[number]["train_loss"]
        assert {k: told[k] for k in ("clients", "flagged", "rejected")} == {
            "clients": CLIENTS, "flagged": 0, "rejected": 0,
        }  # fmt: skip
        assert len(told) == 4  # a summary, not five lines per client
        assert ours.evaluate_metrics_clientapp[number] == plain.evaluate_metrics_clientapp[number]


def test_pytorch_images_with_a_client_that_sends_noise(caplog, tmp_path):
    """A warning per flag, a line per client at the end, and where the ledger is."""
    arrays, path = ArrayRecord(network().state_dict()), tmp_path / "run.ledger"
    with caplog.at_level(logging.INFO, "flwr"):
        run_both(torch_client(sgd), FedAvg(), FedMerit(ledger=path), arrays, rider=noise)
    with Ledger.open(path, read_only=True) as ledger:
        assert flagged(ledger.rounds()) == {str(RIDER)}
    assert sum(f"{RIDER} flagged: " in line for line in caplog.messages) == ROUNDS
    for number in range(CLIENTS):
        start = f"{FIRST + number}: {ROUNDS} rounds, weight"
        assert sum(start in line for line in caplog.messages) == 1
    assert f"next: fedmerit report {path} -o report.html" in caplog.messages


def test_sklearn_has_too_few_parameters_to_judge_anybody(caplog):
    x, y = load_iris(return_X_y=True)
    parts = np.array_split(np.random.default_rng(0).permutation(len(y)), CLIENTS)
    app = ClientApp()

    @app.train()
    def fit(message, context):
        part = parts[context.node_config["partition-id"]]
        model = LogisticRegression(warm_start=True, max_iter=5)
        model.classes_ = np.arange(3)
        coef, intercept = message.content["arrays"].to_numpy_ndarrays()
        model.coef_, model.intercept_ = coef, intercept
        model.fit(x[part], y[part])
        content = {
            "arrays": ArrayRecord([model.coef_, model.intercept_]),
            "metrics": MetricRecord({"num-examples": len(part)}),
        }
        return Message(RecordDict(content), reply_to=message)

    arrays, records = ArrayRecord([np.zeros((3, 4)), np.zeros(3)]), []
    plain, ours = run_both(
        app, FedAvg(fraction_evaluate=0), FedMerit(fraction_evaluate=0, record=records.append),
        arrays,
    )  # fmt: skip
    assert_same(ours.arrays, plain.arrays)  # 15 parameters: what FedAvg would do
    kinds = {client.flag.kind for record in records for client in record.clients}
    assert kinds == {Kind.UNDECIDED}
    told = [line for line in caplog.messages if line.startswith("round ")]
    assert len(told) == ROUNDS  # a line per round, which says what would be needed
    assert all("parameters needed to judge" in line for line in told)


def test_a_table_of_numbers_in_shards_of_very_different_size():
    """As apps on tabular data do: features of a person, one yes or no, clients of other sizes."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=14)
    sizes = [60 * (n + 1) for n in range(CLIENTS)]

    def net():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Linear(14, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)
        )

    app = ClientApp()

    @app.train()
    def fit(message, context):
        part = context.node_config["partition-id"]
        own = np.random.default_rng([7, part])
        x = torch.tensor(own.normal(size=(sizes[part], 14)), dtype=torch.float32)
        y = (x @ torch.tensor(truth, dtype=torch.float32) > 0).float()
        model = net()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(10):
            optimiser.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y).backward()
            optimiser.step()
        content = {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": sizes[part]}),
        }
        return Message(RecordDict(content), reply_to=message)

    arrays, records = ArrayRecord(net().state_dict()), []
    plain, ours = run_both(
        app, FedAvg(fraction_evaluate=0), FedMerit(fraction_evaluate=0, record=records.append),
        arrays,
    )  # fmt: skip
    assert not flagged(records)
    assert_same(ours.arrays, plain.arrays)


class OwnLoop(FedAdagrad):
    """A strategy that overrides `start`, as advanced apps do: it keeps the best model itself."""

    def __init__(self):
        super().__init__(fraction_evaluate=1.0)
        self.best, self.kept = 0.0, 0

    def start(self, grid, initial_arrays, num_rounds=3, **_more):
        arrays, result = initial_arrays, Result()
        for number in range(1, num_rounds + 1):
            config = {"lr": 0.1}
            asked = self.configure_train(number, arrays, _config(config), grid)
            new, metrics = self.aggregate_train(number, grid.send_and_receive(asked))
            arrays = new or arrays
            result.train_metrics_clientapp[number] = metrics
            asked = self.configure_evaluate(number, arrays, _config(config), grid)
            judged = self.aggregate_evaluate(number, grid.send_and_receive(asked))
            if judged is not None and judged["eval_acc"] > self.best:
                self.best, self.kept = judged["eval_acc"], number
        result.arrays = arrays
        return result


def _config(values):
    from flwr.app import ConfigRecord

    return ConfigRecord(values)


def test_a_strategy_with_a_start_of_its_own_is_wrapped():
    arrays, records = ArrayRecord(network().state_dict()), []
    inner = OwnLoop()
    plain, ours = run_both(
        torch_client(sgd), OwnLoop(), FedMerit(inner, record=records.append), arrays
    )
    assert_same(ours.arrays, plain.arrays)
    assert [record.round for record in records] == [1, 2, 3]
    assert inner.kept > 0  # its own bookkeeping went on
    assert not flagged(records)


def test_differential_privacy_of_clients_accuses_nobody():
    """Noise that clients add for privacy hides work; then nobody can be told from anybody."""
    privacy = pytest.importorskip("opacus")

    def private(net, x, y):
        torch.manual_seed(int(1000 * float(x.sum())) % 2**31)
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=64)
        optimiser = torch.optim.SGD(net.parameters(), lr=0.5)
        wrapped, optimiser, data = privacy.PrivacyEngine().make_private(
            module=net, optimizer=optimiser, data_loader=data, noise_multiplier=1.0,
            max_grad_norm=1.0,
        )  # fmt: skip
        loss = torch.zeros(())
        for _ in range(3):
            for batch, labels in data:
                optimiser.zero_grad()
                loss = nn.functional.cross_entropy(wrapped(batch), labels)
                loss.backward()
                optimiser.step()
        net.load_state_dict(
            OrderedDict((k.removeprefix("_module."), v) for k, v in wrapped.state_dict().items())
        )
        return loss.item()

    arrays, records = ArrayRecord(network().state_dict()), []
    plain, ours = run_both(
        torch_client(private),
        FedAvg(fraction_evaluate=0.0),
        FedMerit(fraction_evaluate=0.0, record=records.append),
        arrays,
    )
    assert_same(ours.arrays, plain.arrays)
    assert not flagged(records)
    assert [len(record.clients) for record in records] == [CLIENTS] * ROUNDS
