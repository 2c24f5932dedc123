"""Replies are hostile: each fault costs one client its round, with a reason, and nobody else."""

import logging

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from checks.studies.flower_faults import BAD, CLIENTS, FAULTS, FIRST_NODE, run
from fedmerit.errors import RoundFailedError, UpdatesError
from fedmerit.flags import Kind
from fedmerit.flower import FedMerit, FedPCA, MedPCA
from fedmerit.flower.arrays import decode
from fedmerit.flower.local import LocalGrid
from fedmerit.ledger import Ledger
from fedmerit.report import open_source, write_report

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")

# What the record says of the bad client in round 2; "" where its reply is used.
REASONS = {
    "NaN in one array": "layers.0.bias must be finite, got nan at 0",
    "one infinity": "layers.0.bias must be finite, got inf at 63",
    "wrong length": "layers.0.bias must have shape (64,), got (61,)",
    "shape (1,), which broadcasts": "layers.0.bias must have shape (64,), got (1,)",
    "square array transposed": "",
    "float64 for float32": "",
    "integers for floats": "",
    "missing array": "arrays must be those of the global model, got 3 for 4; missing",
    "extra array": "arrays must be those of the global model, got 5 for 4; unknown 'extra'",
    "renamed array": "arrays must be those of the global model, got 4 for 4; missing",
    "no arrays": "arrays must be those of the global model, got 0 for 4",
    "two array records": "a reply must have one ArrayRecord, got 2",
    "array that claims to be huge": "layers.0.bias must have shape (64,), got (9999999999999,)",
    "update 1e12 times too long": "the update's norm must be at most",
    "num-examples missing": "metrics must have num-examples, got none",
    "num-examples -1e6": "num-examples must be positive and at most 2^63 - 1, got -1000000",
    "num-examples 0": "num-examples must be positive and at most 2^63 - 1, got 0",
    "num-examples NaN": "num-examples must be positive and at most 2^63 - 1, got nan",
    "num-examples 1e15": "",
    "num-examples a list": "num-examples must be a number, got [1, 2]",
    "no metrics": "a reply must have one MetricRecord, got 0",
    "two replies": "a second reply in the same round",
    "replies to the round before": "the reply is to a message of another round",
    "client raises": "error 2: RuntimeError('the disk is full')",
    "silent": "no reply before the timeout",
    "stale replay": "",
}


GATED = {"weighting": "gated", "norm_bound": 1.5}
WAYS = pytest.mark.parametrize("way", [{}, GATED], ids=["engine", "gated"])


def test_every_fault_has_an_expected_reason():
    assert REASONS.keys() == FAULTS.keys()


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_one_client_its_round(name, way):
    records = []
    strategy = FedMerit(fraction_evaluate=0.0, seed=0, record=records.append, **way)
    outcome = run(strategy, FAULTS[name](), 2)
    assert outcome.error == ""
    assert outcome.finite
    assert outcome.accuracy > 0.7
    last = records[-1]
    honest = {str(FIRST_NODE + number) for number in range(CLIENTS - 1)}
    used = {client.client for client in last.clients}
    assert honest <= used
    reasons = [refusal.reason for refusal in last.rejected]
    assert {refusal.client for refusal in last.rejected} <= {str(BAD)}
    if REASONS[name]:
        assert reasons[0].startswith(REASONS[name])
        assert (str(BAD) in used) == (name == "two replies")
    else:
        assert reasons == []
        assert str(BAD) in used


@WAYS
def test_a_stale_replayer_is_flagged_and_has_no_weight(way):
    records = []
    strategy = FedMerit(fraction_evaluate=0.0, seed=0, record=records.append, **way)
    run(strategy, FAULTS["stale replay"](), 3)
    (rider,) = [client for client in records[-1].clients if client.client == str(BAD)]
    assert rider.flagged
    assert rider.weight == 0.0
    assert rider.flag.kind is Kind.EXPLAINED
    assert sum(client.flagged for client in records[-1].clients) == 1


@pytest.mark.parametrize("kind", [FedPCA, MedPCA])
@pytest.mark.parametrize("name", ["NaN in one array", "client raises", "num-examples -1e6"])
def test_the_published_strategies_refuse_the_same(kind, name):
    records = []
    outcome = run(kind(fraction_evaluate=0.0, seed=0, record=records.append), FAULTS[name](), 2)
    assert outcome.accuracy > 0.7
    assert records[-1].rejected[0].client == str(BAD)
    assert all(client.weight > 0 for client in records[-1].clients)


def start(nodes, model, **settings):
    records = []
    settings = {"fraction_evaluate": 0.0, "seed": 0, **settings}
    strategy = FedMerit(record=records.append, **settings)
    arrays = ArrayRecord({name: Array(np.asarray(value)) for name, value in model.items()})
    return strategy.start(LocalGrid(nodes), arrays, num_rounds=2), records


def silent(_message):
    return None


def working(seed, extra=None):
    """A client whose work has a part of its own, and a part that all share, new in every round."""

    def reply(message):
        number = message.content["config"]["server-round"]
        shared, own = np.random.default_rng(number), np.random.default_rng([number, seed])
        (record,) = message.content.array_records.values()
        arrays = {}
        for name, array in record.items():
            value = array.numpy()
            if value.dtype.kind == "f":
                step = shared.normal(size=value.shape) + own.normal(size=value.shape)
                value = np.asarray(value + step, dtype=value.dtype)
            arrays[name] = Array(value)
        metrics = MetricRecord({"num-examples": 10, **(extra or {})})
        content = {"arrays": ArrayRecord(arrays), "metrics": metrics}
        return Message(RecordDict(content), reply_to=message)

    return reply


MODEL = {"a.weight": np.zeros((30, 20), np.float32), "a.bias": np.zeros(20, np.float32)}


def test_a_single_reply_is_the_next_model_as_in_fedavg():
    nodes = {**dict.fromkeys(range(10, 14), silent), 10: working(10)}
    result, (record, _) = start(nodes, MODEL)
    assert (result.arrays["a.weight"].numpy() != MODEL["a.weight"]).any()
    (client,) = record.clients
    assert (client.weight, client.flag.kind) == (1.0, Kind.UNDECIDED)


@pytest.mark.parametrize(("usable", "weighting"), [(0, "engine"), (0, "gated"), (1, "gated")])
def test_with_too_few_replies_the_round_is_skipped_and_the_model_stays(usable, weighting):
    nodes = dict.fromkeys(range(10, 14), silent)
    nodes |= {number: working(number) for number in range(10, 10 + usable)}
    result, records = start(nodes, MODEL, weighting=weighting)
    for name, value in MODEL.items():
        np.testing.assert_array_equal(result.arrays[name].numpy(), value)
    assert [record.round for record in records] == [1, 2]
    assert len(records[0].rejected) == 4
    assert records[0].clients == ()
    skipped = [r.client for r in records[0].rejected if r.kind is Kind.SKIPPED]
    assert skipped == ["10"] * usable
    assert sum(r.kind is Kind.ABSENT for r in records[0].rejected) == 4 - usable


@WAYS
def test_where_every_reply_fails_for_one_reason_the_run_stops_and_says_it(way):
    def short(message):
        answer = working(1)(message)
        answer.content["arrays"] = ArrayRecord({"a.weight": Array(np.zeros(3, np.float32))})
        return answer

    with pytest.raises(RoundFailedError, match="all 3 replies were refused: arrays must be those"):
        start(dict.fromkeys((10, 11, 12), short), MODEL, **way)


def test_a_scorer_that_cannot_score_the_round_skips_it_with_a_reason():
    nodes = {10: working(1), 11: working(2)}
    records = []
    strategy = FedPCA(fraction_evaluate=0.0, record=records.append)
    tiny = ArrayRecord({"w": Array(np.zeros(3, np.float32))})
    result = strategy.start(LocalGrid(nodes), tiny, num_rounds=1)
    np.testing.assert_array_equal(result.arrays["w"].numpy(), np.zeros(3))
    assert records[0].rejected[0].reason.startswith("round skipped: updates must have at least")


def test_odd_metrics_are_left_out_of_the_average():
    nodes = {number: working(number, {"loss": 1.0}) for number in range(10, 14)}
    nodes[14] = working(14, {"loss": np.nan})
    nodes[15] = working(15, {"loss": [1.0, 2.0]})
    nodes[16] = working(16, {"other": 5.0})
    result, records = start(nodes, MODEL, **GATED)
    assert result.train_metrics_clientapp[2]["loss"] == 1.0
    assert "other" not in result.train_metrics_clientapp[2]
    assert len(records[-1].clients) == 7
    # A strategy inside refuses the whole round for replies whose metrics have other names.
    result, records = start(nodes, MODEL)
    assert result.train_metrics_clientapp[2]["loss"] == 1.0
    assert "other" not in result.train_metrics_clientapp[2]
    assert {client.client for client in records[-1].clients} == {"10", "11", "12", "13", "14"}
    assert {(refusal.client, refusal.reason) for refusal in records[-1].rejected} == {
        ("15", "metrics must have the names that most others have"),
        ("16", "metrics must have the names that most others have"),
    }


def test_arrays_that_are_not_trained_keep_the_servers_value():
    model = {**MODEL, "a.seen": np.array(7, dtype=np.int64)}
    nodes = {number: working(number) for number in range(10, 14)}
    result, records = start(nodes, model, **GATED)
    assert len(records[-1].clients) == 4
    assert result.arrays["a.seen"].numpy() == 7
    assert result.arrays["a.seen"].numpy().dtype == np.int64
    # Where the strategy inside combines, they are as it leaves them.
    result, records = start(nodes, model)
    arrays = ArrayRecord({name: Array(value) for name, value in model.items()})
    plain = FedAvg(fraction_evaluate=0.0).start(LocalGrid(nodes), arrays, num_rounds=2)
    assert [client.weight for client in records[-1].clients] == [0.25] * 4
    for name in model:
        ours, theirs = result.arrays[name].numpy(), plain.arrays[name].numpy()
        # FedAvg adds up in the order of the replies, which it asks for in random order.
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, strict=True)


@WAYS
def test_another_type_of_float_is_kept(way):
    model = {"a": np.zeros(400, np.float16), "b": np.zeros(400, np.float64)}
    nodes = {number: working(number) for number in range(10, 14)}
    result, records = start(nodes, model, **way)
    assert [result.arrays[name].numpy().dtype for name in "ab"] == [np.float16, np.float64]
    assert len(records[-1].clients) == 4


def test_a_global_model_that_is_not_finite_is_an_error_of_the_server():
    with pytest.raises(UpdatesError, match="the global model must be finite"):
        start({10: working(1), 11: working(2)}, {"a": np.full(5, np.nan, np.float32)})


def test_fortran_order_is_read_as_what_it_means():
    values = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    flat = decode("a", Array(values), (2, 3))
    assert flat.tolist() == [0, 1, 2, 3, 4, 5]


def test_bytes_that_are_no_array_are_refused():
    good = Array(np.zeros(4, np.float32))
    for data in (b"", b"PK\x03\x04", good.data[:20], good.data[:-1], good.data + b"x" * 20_000):
        bad = Array("float32", (4,), good.stype, data)
        with pytest.raises(UpdatesError):
            decode("a", bad, (4,))


def test_a_broken_header_is_refused_whatever_the_parser_makes_of_it():
    good = Array(np.zeros(4, np.float32))
    rng = np.random.default_rng(3)
    for _ in range(300):
        data = bytearray(good.data)
        where = rng.integers(0, 100, size=3)
        for position in where:
            data[position] = rng.integers(256)
        try:
            values = decode("a", Array("float32", (4,), good.stype, bytes(data)), (4,))
        except UpdatesError:
            continue
        assert values.shape == (4,)
        assert values.dtype.kind in "fiub"


def test_replies_that_no_strategy_needs_are_released_as_they_are_read():
    kept = []

    class Watching(LocalGrid):
        def send_and_receive(self, messages, *, timeout=None):
            kept.extend(super().send_and_receive(messages, timeout=timeout))
            return iter(list(kept))

    strategy = FedMerit(fraction_evaluate=0.0, seed=0, **GATED)
    arrays = ArrayRecord({n: Array(v) for n, v in MODEL.items()})
    grid = Watching({number: working(number) for number in range(10, 14)})
    strategy.start(grid, arrays, num_rounds=1)
    assert len(kept) == 4
    assert all(not reply.content for reply in kept)


def test_a_clients_name_is_a_label_only(tmp_path, caplog):
    def named(number, name):
        def reply(message):
            answer = working(number)(message)
            answer.content["about"] = ConfigRecord({"client-name": name})
            return answer

        return reply

    records = []
    ledger = tmp_path / "run.ledger"
    strategy = FedMerit(fraction_evaluate=0.0, record=records.append, ledger=ledger)
    arrays = ArrayRecord({n: Array(v) for n, v in MODEL.items()})
    nodes = {number: named(number, "hospital\x1b[2J\n" * 30) for number in (10, 11, 12)}
    with caplog.at_level(logging.INFO, "flwr"):
        strategy.start(LocalGrid(nodes), arrays, num_rounds=1)
    assert [client.client for client in records[0].clients] == ["10", "11", "12"]
    assert [client.label for client in records[0].clients] == [strategy.labels["10"]] * 3
    assert strategy.labels["10"].startswith("hospital")
    assert len(strategy.labels["10"]) <= 60
    assert strategy.labels["10"].isprintable()
    assert f"10 (calls itself {strategy.labels['10']!r}): 1 rounds" in caplog.text
    with Ledger.open(ledger, read_only=True) as opened:
        (recorded,) = opened.rounds()
    assert {client.label for client in recorded.clients} == {strategy.labels["10"]}
    write_report(open_source(ledger), tmp_path / "page.html")
    assert "hospital" in (tmp_path / "page.html").read_text()
