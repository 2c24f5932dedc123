"""FLARE's aggregator: same bits as the library, and one bad reply costs one client its round."""

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'fedmerit[nvflare]'")

from nvflare.apis.client import Client
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import ReservedKey, ReturnCode, ServerCommandKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.abstract.model import make_model_learnable, model_learnable_to_dxo
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.shareablegenerators.full_model_shareable_generator import (
    FullModelShareableGenerator,
)
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

import fedmerit
from fedmerit.errors import UpdatesError
from fedmerit.ledger import Ledger
from fedmerit.nvflare import MeritAggregator
from fedmerit.nvflare.contribution import mean_metrics
from fedmerit.rng import stream
from fedmerit.server import RoundHistory, RoundRules
from fedmerit.server.history import View
from fedmerit.server.judging import combine_round, judge_round, scoring_stream
from fedmerit.server.layout import layer_numbers
from fedmerit.server.replies import Replies

SEED, CLIENTS, ROUNDS = 5, 6, 3
NAMES = [f"site-{number}" for number in range(1, CLIENTS + 1)]
GATED = RoundRules(weighting="gated", norm_bound=1.5)
RULES = pytest.mark.parametrize("rules", [RoundRules(), GATED], ids=["engine", "gated"])
SIZES = {"a.weight": 600, "a.bias": 20}


def first_model():
    rng = np.random.default_rng(0)
    weight = 0.1 * rng.normal(size=(30, 20))
    return {
        "a.weight": weight.astype(np.float32),
        "a.bias": np.zeros(20, np.float32),
        "a.seen": np.array(7),
    }


def work(number, row):
    """An update with a part that all clients share, new in every round, and one of its own."""
    shared, own = np.random.default_rng(number), np.random.default_rng([number, row])
    return (0.01 * (shared.normal(size=620) + own.normal(size=620))).astype(np.float32)


def cut(vector):
    return {
        "a.weight": vector[:600].reshape(30, 20),
        "a.bias": vector[600:],
        "a.seen": np.array(0),
    }


def flat(arrays):
    return np.concatenate([arrays[name].reshape(-1) for name in SIZES])


def reply(name, number, arrays, kind=DataKind.WEIGHT_DIFF, **meta):
    result = DXO(kind, arrays, {MetaKey.NUM_STEPS_CURRENT_ROUND: 10, **meta}).to_shareable()
    return addressed(result, name, number)


def addressed(result, name, number):
    result.add_cookie(AppConstants.CONTRIBUTION_ROUND, number)
    # As FLARE's server does once it has checked the token.
    result.set_header(ServerCommandKey.FL_CLIENT, Client(name, "token"))
    return result


class Workflow:
    """The server's side of ScatterAndGather's rounds, which FLARE numbers from 0."""

    def __init__(self, **settings):
        self.records = []
        self.aggregator = MeritAggregator(seed=SEED, record=self.records.append, **settings)
        self.context = FLContext()
        self.set(AppConstants.GLOBAL_MODEL, make_model_learnable(first_model(), {}))
        self.round = -1
        self.next()

    def set(self, key, value):
        self.context.set_prop(key, value, private=True, sticky=False)

    @property
    def model(self):
        return self.context.get_prop(AppConstants.GLOBAL_MODEL)

    def next(self):
        self.round += 1
        self.set(AppConstants.CURRENT_ROUND, self.round)

    def accept(self, shareable):
        return self.aggregator.accept(shareable, self.context)

    def work(self, names=NAMES):
        return [
            self.accept(reply(name, self.round, cut(work(self.round, row))))
            for row, name in enumerate(names)
        ]

    def finish(self):
        result = self.aggregator.aggregate(self.context)
        found = from_shareable(result)
        learnable = FullModelShareableGenerator().shareable_to_learnable(result, self.context)
        self.set(AppConstants.GLOBAL_MODEL, learnable)
        self.aggregator.reset(self.context)
        return found


def settled_by_the_library(rules):
    view = View(layers=layer_numbers(SIZES))
    model, history, found = flat(first_model()), RoundHistory(view=view), []
    for number in range(ROUNDS):
        history = history.published(model)
        updates = np.stack([work(number, row) for row in range(CLIENTS)])
        before = history
        judged = judge_round(
            rules,
            history,
            Replies(NAMES, updates, [10] * CLIENTS),
            scoring_stream(SEED, number + 1),
        )
        model, history = model + combine_round(rules, judged), judged.history
        found.append((before, updates, judged))
    return model, found


@RULES
@pytest.mark.parametrize("order", [1, -1])
def test_the_same_updates_give_the_same_bits_as_the_library(order, rules):
    model, expected = settled_by_the_library(rules)
    flow = Workflow(rules=rules)
    for number in range(ROUNDS):
        for row in range(CLIENTS)[::order]:
            assert flow.accept(reply(NAMES[row], number, cut(work(number, row))))
        flow.finish()
        flow.next()
    assert [record.clients for record in flow.records] == [s.clients for _, _, s in expected]
    np.testing.assert_array_equal(flat(flow.model["weights"]), model)
    assert flow.model["weights"]["a.seen"] == 7

    history, updates, _ = expected[-1]
    plain = fedmerit.score(
        updates,
        public=history.public,
        layers=layer_numbers(SIZES),
        previous=np.stack([history.previous[name] for name in NAMES]),
        testimony=np.stack([history.testimony[name] for name in NAMES]),
        trust=[history.trust[name] for name in NAMES],
        rounds=[history.wealth[name].rounds for name in NAMES],
        rng=stream(SEED, "round", ROUNDS, "scoring"),
    )
    assert plain.scores.tolist() == [client.score for client in flow.records[-1].clients]


@RULES
def test_a_model_is_read_as_its_step_from_the_global_model(rules):
    flow, start = Workflow(rules=rules), first_model()
    for row, name in enumerate(NAMES):
        step = cut(work(0, row))
        sent = {key: start[key] + step[key] for key in start}
        assert flow.accept(reply(name, 0, sent, DataKind.WEIGHTS))
    sent_back = flow.finish()
    assert sent_back.data_kind == DataKind.WEIGHTS  # FLARE ends at the very same bits
    updates = [flat(start) + work(0, row) - flat(start) for row in range(CLIENTS)]
    weights = [client.weight for client in flow.records[0].clients]
    if rules.averages:
        models = [flat(start) + update for update in updates]
        after = sum(
            (m * float(w) for m, w in zip(models[1:], weights[1:], strict=True) if w),
            models[0] * float(weights[0]),
        )
    else:
        after = flat(start) + fedmerit.aggregate(updates, weights, norm_bound=rules.norm_bound)
    np.testing.assert_array_equal(flat(sent_back.data), after)
    np.testing.assert_array_equal(flat(flow.model["weights"]), after)


def test_the_server_is_told_of_every_client_and_clients_are_not():
    flow = Workflow()
    flow.work()
    sent_back = flow.finish()
    found = flow.context.get_prop("fedmerit")
    for client in flow.records[0].clients:
        assert found[f"weight/{client.client}"] == client.weight
        assert found[f"score/{client.client}"] == client.score
    assert "fedmerit" not in flow.context.get_all_public_props()  # what is sent to peers
    assert not sent_back.meta
    assert not model_learnable_to_dxo(flow.model).meta


def changed(name, values):
    return {**cut(work(0, 9)), name: values}


def with_nan():
    vector = work(0, 9)
    vector[3] = np.nan
    return cut(vector)


def no_dxo():
    return Shareable({"DXO": [1, 2]})


def of_kind(kind):
    sent = reply("", 0, cut(work(0, 9)))
    sent["DXO"]["kind"] = kind
    return sent


FAULTS = {
    "NaN": (with_nan, "a.weight must be finite, got nan at 3"),
    "wrong shape": (
        lambda: changed("a.bias", np.zeros(19, np.float32)),
        "a.bias must have shape (20,), got (19,)",
    ),
    "broadcasts": (
        lambda: changed("a.bias", np.zeros(1, np.float32)),
        "a.bias must have shape (20,), got (1,)",
    ),
    "text": (lambda: changed("a.bias", np.full(20, "1")), "a.bias must be numbers, got <U1"),
    "complex": (lambda: changed("a.bias", np.zeros(20, complex)), "a.bias must be numbers"),
    "list": (lambda: changed("a.bias", [0.0] * 20), "a.bias must be a NumPy array, got list"),
    "extra": (lambda: changed("b", np.zeros(2)), "arrays must be those of the global model"),
    "number as name": (lambda: changed(3, np.zeros(2)), "arrays must have text as names, got 3"),
    "nothing": (dict, "arrays must be those of the global model, got 0 for 3"),
    "absurd length": (lambda: cut(work(0, 9) * 1e9), "the update's norm must be at most"),
    "no DXO": (no_dxo, "a reply must be a DXO"),
    "error": (
        lambda: make_reply(ReturnCode.EXECUTION_EXCEPTION),
        "error: EXECUTION_EXCEPTION",
    ),
    "metrics only": (
        lambda: DXO(DataKind.METRICS, {"loss": 1.0}).to_shareable(),
        "a reply must be WEIGHT_DIFF or WEIGHTS, got",
    ),
    "kind is an array": (
        lambda: of_kind(np.zeros(1)),
        "a reply must be WEIGHT_DIFF or WEIGHTS, got [0.]",
    ),
    "encrypted": (
        lambda: reply("", 0, cut(work(0, 9)), **{MetaKey.PROCESSED_ALGORITHM: "HE"}),
        "arrays must be plain",
    ),
    "negative steps": (
        lambda: reply("", 0, cut(work(0, 9)), **{MetaKey.NUM_STEPS_CURRENT_ROUND: -4}),
        "NUM_STEPS_CURRENT_ROUND must be positive",
    ),
    "steps as text": (
        lambda: reply("", 0, cut(work(0, 9)), **{MetaKey.NUM_STEPS_CURRENT_ROUND: "many"}),
        "NUM_STEPS_CURRENT_ROUND must be a number, got 'many'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_one_client_its_round(fault):
    make, reason = FAULTS[fault]
    sent = make()
    bad = sent if isinstance(sent, Shareable) else reply("", 0, sent)
    clean, flow = Workflow(), Workflow()
    clean.work()
    flow.accept(addressed(bad, "bad", 0))
    assert flow.work() == [True] * CLIENTS
    clean.finish()
    flow.finish()
    ours, theirs = flow.records[0], clean.records[0]
    assert ours.clients == theirs.clients
    assert [(r.client, r.reason[: len(reason)]) for r in ours.rejected] == [("bad", reason)]
    np.testing.assert_array_equal(flat(flow.model["weights"]), flat(clean.model["weights"]))


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int64])
def test_another_type_of_number_is_cast(kind):
    flow = Workflow()
    flow.work()
    ours = cut(np.zeros(620, np.float32))
    assert flow.accept(reply("other", 0, {name: ours[name].astype(kind) for name in ours}))
    flow.finish()
    assert flow.records[0].rejected == ()
    assert len(flow.records[0].clients) == CLIENTS + 1
    assert {values.dtype for values in map(flow.model["weights"].get, SIZES)} == {np.dtype("f4")}


def test_a_second_reply_of_a_client_is_refused_and_the_first_counts():
    clean, flow = Workflow(), Workflow()
    clean.work()
    flow.work()
    other = reply(NAMES[0], 0, cut(work(0, 9)))
    # A name that the client claims in its own context changes nothing.
    other.set_peer_props({ReservedKey.IDENTITY_NAME: "somebody-else"})
    assert not flow.accept(other)
    assert not flow.accept(other)
    clean.finish()
    flow.finish()
    assert flow.records[0].clients == clean.records[0].clients
    (refusal,) = flow.records[0].rejected  # written once, however often it is sent
    assert (refusal.client, refusal.reason) == (NAMES[0], "a second reply in the same round")


def test_a_reply_to_another_round_is_refused():
    flow = Workflow()
    flow.work()
    flow.finish()
    late = reply("late", 0, cut(work(0, 9)))
    assert not flow.accept(late)  # the round is over, its model replaced
    flow.next()
    assert not flow.accept(late)
    for jar in (None, [], {"contribution_round": np.zeros(2)}, {"contribution_round": "1"}):
        late.set_cookie_jar(jar)
        assert not flow.accept(late)
    assert flow.accept(reply("late", 1, cut(work(1, 9))))
    flow.work()
    flow.finish()
    assert flow.records[0].rejected == ()
    assert len(flow.records[1].clients) == CLIENTS + 1
    (refusal,) = flow.records[1].rejected
    assert refusal.reason == "the reply is to a task of another round"


def test_a_reply_of_nobody_is_refused():
    flow = Workflow()
    nobody = reply("", 0, cut(work(0, 9)))
    nobody.set_header(ServerCommandKey.FL_CLIENT, "site-1")
    assert not flow.accept(nobody)
    assert flow.work() == [True] * CLIENTS


@pytest.mark.parametrize("usable", [0, 1])
def test_with_too_few_replies_the_round_is_skipped_and_the_model_stays(usable):
    flow = Workflow(rules=GATED)
    flow.work(NAMES[:usable])
    change = flow.finish()
    assert change.data == {}
    np.testing.assert_array_equal(flat(flow.model["weights"]), flat(first_model()))


class Controller(Workflow):
    """The calls of FLARE's FedAvg controller: models that it named, a context for the rest."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.aggregator.handle_event(EventType.START_RUN, self.context)

    def send(self, name, params, kind=ParamsType.DIFF, metrics=None, **meta):
        meta = {"client_name": name, MetaKey.NUM_STEPS_CURRENT_ROUND: 10, **meta}
        self.aggregator.accept_model(FLModel(kind, params, metrics=metrics, meta=meta))

    def finish(self):
        result = self.aggregator.aggregate_model()
        model = FLModel(ParamsType.FULL, dict(self.model["weights"]))
        after = FLModelUtils.update_model(model, result)
        self.set(AppConstants.GLOBAL_MODEL, make_model_learnable(after.params, after.meta))
        self.aggregator.reset_stats()
        return result


@RULES
@pytest.mark.parametrize("kind", [ParamsType.DIFF, ParamsType.FULL])
def test_the_fedavg_controller_gets_the_same_bits(kind, rules):
    theirs, ours = Workflow(rules=rules), Controller(rules=rules)
    for number in range(ROUNDS):
        start = theirs.model["weights"]
        for row, name in enumerate(NAMES):
            arrays = cut(work(number, row))
            if kind == ParamsType.FULL:
                arrays = {key: start[key] + arrays[key] for key in start}
            sent = DataKind.WEIGHTS if kind == ParamsType.FULL else DataKind.WEIGHT_DIFF
            assert theirs.accept(reply(name, number, arrays, sent))
            ours.send(name, arrays, kind)
        theirs.finish()
        result = ours.finish()
        assert result.params_type == kind
        assert not result.meta  # clients get the meta
        for name, values in theirs.model["weights"].items():
            np.testing.assert_array_equal(ours.model["weights"][name], values)
        theirs.next()
        ours.next()
    assert [r.clients for r in ours.records] == [r.clients for r in theirs.records]


CONTROLLER_FAULTS = {
    "NaN": ({"params": with_nan()}, "a.weight must be finite, got nan at 3"),
    "tensors of another kind": (
        {"params": changed("a.bias", [0.0] * 20)},
        "a.bias must be a NumPy",
    ),
    "no arrays": ({"params": [1.0]}, "a reply must hold arrays by name, got [1.0]"),
    "metrics only": ({"params": None, "kind": None}, "a reply must be DIFF or FULL, got None"),
    "encrypted": (
        {"params": cut(work(0, 9)), MetaKey.PROCESSED_ALGORITHM: "HE"},
        "arrays must be plain",
    ),
    "steps as text": (
        {"params": cut(work(0, 9)), MetaKey.NUM_STEPS_CURRENT_ROUND: "many"},
        "NUM_STEPS_CURRENT_ROUND must be a number, got 'many'",
    ),
}


@pytest.mark.parametrize("fault", CONTROLLER_FAULTS)
def test_a_fault_costs_one_client_its_round_with_the_fedavg_controller(fault):
    sent, reason = CONTROLLER_FAULTS[fault]
    clean, flow = Controller(), Controller()
    for row, name in enumerate(NAMES):
        clean.send(name, cut(work(0, row)))
        flow.send(name, cut(work(0, row)))
    flow.send("bad", **sent)
    flow.send(NAMES[0], cut(work(0, 9)))  # a second one
    flow.send("", cut(work(0, 9)))  # of nobody
    clean.finish()
    flow.finish()
    assert flow.records[0].clients == clean.records[0].clients
    told = {refusal.client: refusal.reason for refusal in flow.records[0].rejected}
    assert told.pop("bad").startswith(reason)
    assert told == {
        NAMES[0]: "a second reply in the same round",
        "?": "a reply must name its client, got ''",
    }
    np.testing.assert_array_equal(flat(flow.model["weights"]), flat(clean.model["weights"]))


def test_without_replies_the_fedavg_controller_keeps_its_model():
    flow = Controller()
    assert flow.finish().params == {}
    np.testing.assert_array_equal(flat(flow.model["weights"]), flat(first_model()))


def test_metrics_are_the_mean_over_those_who_have_weight_and_report_a_number():
    flow = Controller()
    for row, name in enumerate(NAMES):
        flow.send(name, cut(work(0, row)), metrics={"accuracy": row / 10, "loss": 2})
    flow.send("odd", cut(work(0, 6)), metrics={"accuracy": np.nan, "loss": 10**400, 3: 1})
    flow.send("silent", cut(work(0, 7)))
    assert flow.finish().metrics == {"accuracy": pytest.approx(0.25), "loss": pytest.approx(2)}
    assert mean_metrics([(0.0, {"loss": 9}), (0.5, {"loss": np.float32(1)}), (1, {"loss": 4})]) == {
        "loss": pytest.approx(3)
    }
    assert mean_metrics([(0.0, {"loss": 9}), (1.0, None)]) is None


def test_every_round_is_in_a_ledger_that_verifies_and_a_job_that_starts_again_goes_on(tmp_path):
    path = tmp_path / "run.ledger"
    for _ in range(2):
        flow = Workflow(ledger=str(path))
        flow.aggregator.handle_event(EventType.START_RUN, flow.context)
        for _ in range(2):
            flow.work()
            flow.finish()
            flow.next()
        flow.aggregator.handle_event(EventType.END_RUN, flow.context)
    with Ledger.open(path) as ledger:
        assert ledger.verify().ok
        assert [run.rounds for run in ledger.runs()] == [4]
        assert [record.round for record in ledger.rounds()] == [1, 2, 3, 4]
        assert ledger.runs()[0].config["engine"] == "nvflare"


def test_without_a_usable_global_model_the_server_is_told():
    flow = Workflow()
    flow.set(AppConstants.GLOBAL_MODEL, make_model_learnable({"a": [1.0]}, {}))
    with pytest.raises(UpdatesError, match="the global model must be NumPy arrays, got list for a"):
        flow.work()
    flow.set(AppConstants.GLOBAL_MODEL, None)
    with pytest.raises(UpdatesError, match="the workflow must have a global model, got none"):
        flow.finish()
