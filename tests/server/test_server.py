"""`Server`: what it takes, what it refuses, and that its two halves are the whole."""

import dataclasses
import math
import re
from dataclasses import dataclass

import numpy as np
import pytest

from fedmerit import SCORERS, Flag, Kind, Ledger, Needs, RoundRules, Server, score
from fedmerit.errors import (
    Fault,
    FedMeritError,
    InvalidInputError,
    RoundFailedError,
    Rule,
    SettingError,
    UnknownNameError,
    UpdatesError,
)
from fedmerit.report import open_source
from fedmerit.report.data import page_data
from fedmerit.scorers import make_scorer
from fedmerit.server.replies import Replies, read_sent
from fedmerit.types import Contributions, Rejection, needs_of
from tests.server.federation import (
    CLIENTS,
    PARAMETERS,
    SHAPES,
    cut,
    facts,
    model,
    new,
    run,
    updates,
)

PAYING = {"reward": "positive:budget=1000"}


# --- what it takes


def test_vectors_and_mappings_give_the_same_bits():
    other = Server(cut(model()), seed=5, **PAYING)
    assert not new().layout.layers.any(), "one vector has one layer"
    layered = new(layers=other.layout.layers, **PAYING)
    for number in (1, 2, 3):
        sent = updates(number)
        ours = other.settle(updates={client: cut(update) for client, update in sent.items()})
        assert facts(layered.settle(updates=sent)) == facts(ours)
    np.testing.assert_array_equal(
        layered.model, np.concatenate([a.reshape(-1) for a in other.model.values()])
    )
    assert {name: array.shape for name, array in other.model.items()} == SHAPES


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.longdouble, ">f4", "list"])
def test_other_floats_are_cast(kind):
    # Values that all these types hold: the same update must give the same bits.
    sent = {c: u.astype(np.float16).astype(np.float32) for c, u in updates(1).items()}
    other = {c: u.tolist() if kind == "list" else u.astype(kind) for c, u in sent.items()}
    ours, theirs = new(), new()
    assert facts(ours.settle(updates=sent)) == facts(theirs.settle(updates=other))
    np.testing.assert_array_equal(ours.model, theirs.model)
    assert theirs.model.dtype == np.float32


def test_a_difference_is_taken_in_the_finer_type():
    server, trained = new(), model().astype(np.float64)
    sent = {c: trained + u for c, u in updates(1).items()}
    seen = read_sent(server.sight, sent, server.state.model, {}, {}, vector=True)[0].updates
    expected = np.stack([(sent[c] - trained).astype(np.float32) for c in sorted(sent)])
    np.testing.assert_array_equal(seen, expected)


def test_torch_tensors_of_all_kinds_are_arrays():
    torch = pytest.importorskip("torch")
    sent = {c: torch.tensor(u).to(torch.bfloat16) for c, u in updates(1).items()}
    plain = {c: t.float().numpy() for c, t in sent.items()}
    expected, server = new(), Server(torch.nn.Parameter(torch.tensor(model())), seed=5)
    told = facts(expected.settle(updates=plain))
    assert facts(server.settle(updates=sent)) == told
    np.testing.assert_array_equal(server.model, expected.model)
    tracked = {c: torch.tensor(u, requires_grad=True) for c, u in plain.items()}
    assert facts(new().settle(updates=tracked)) == told
    assert all(t.requires_grad for t in tracked.values()), "a caller's tensors stay as they were"


def test_anything_with_array_is_an_array():
    class Wrapped:
        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            del copy
            return self.values if dtype is None else self.values.astype(dtype)

    sent = updates(1)
    assert facts(new().settle(updates={c: Wrapped(u) for c, u in sent.items()})) == facts(
        new().settle(updates=sent)
    )


def test_a_torch_module_in_a_loop_of_ones_own():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.BatchNorm1d(30))
    truth = torch.randn(40, 30)
    with Server(net.state_dict(), seed=1) as server:
        replies = {}
        for client in CLIENTS:
            net.load_state_dict({n: torch.tensor(a) for n, a in server.model.items()})
            net.train()
            data = torch.randn(100, 40)
            (net(data) - data @ truth - 1).square().mean().backward()
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter -= 0.01 * parameter.grad
            net.zero_grad()
            replies[client] = {n: t.clone() for n, t in net.state_dict().items()}
        result = server.settle(replies)
    assert result.rejected == {}
    assert server.model["1.num_batches_tracked"] == 0
    assert server.model["1.num_batches_tracked"].dtype == np.int64
    assert server.model["1.running_mean"].any()
    net.load_state_dict({n: torch.tensor(a) for n, a in server.model.items()})


def normed(number):
    """A model with batch normalisation; the server's, or for a number what clients send."""
    arrays = cut(model())
    arrays |= {
        "in.running_mean": np.zeros(30, np.float32),
        "in.running_var": np.ones(30, np.float32),
        "in.num_batches_tracked": np.array(3, np.int64),
    }
    if number is None:
        return arrays
    own = {}
    for client, update in updates(number).items():
        seen = np.random.default_rng([number, *client.encode()])
        parts = {name: arrays[name] + part for name, part in cut(update).items()}
        own[client] = parts | {
            "in.running_mean": seen.normal(size=30).astype(np.float32),
            "in.running_var": seen.uniform(1, 2, 30).astype(np.float32),
            "in.num_batches_tracked": np.array(100, np.int64),
        }
    return own


def test_integers_keep_the_servers_value_also_when_the_caller_changes_its_own():
    given = normed(None)
    server = Server(given, seed=1)
    given["in.num_batches_tracked"] += 5
    server.settle(normed(1))
    assert server.model["in.num_batches_tracked"] == 3
    assert server.model["in.num_batches_tracked"].dtype == np.int64


def test_the_model_does_not_change_with_the_arrays_that_were_given():
    given = cut(model().copy())
    server = Server(given, seed=1)
    given["in.bias"][:] = 7
    np.testing.assert_array_equal(server.model["in.bias"], cut(model())["in.bias"])
    sent = updates(1)
    result = new(seed=1)
    result.settle(updates=sent)
    before = result.model.copy()
    sent["ann"][:] = 0
    np.testing.assert_array_equal(result.model, before)


def test_running_statistics_are_combined_but_not_scored():
    plain = Server(cut(model()), seed=1)
    ours, other = Server(normed(None), seed=1), Server(normed(None), seed=1)
    for number in (1, 2):
        sent, changed = normed(number), normed(number)
        for arrays in changed.values():
            arrays["in.running_mean"] = arrays["in.running_mean"] * 0 + 9
        told = facts(ours.settle(sent))
        assert facts(other.settle(changed)) == told
    assert other.model["in.running_mean"] == pytest.approx(9.0)
    assert 1 < ours.model["in.running_var"].mean() < 2
    # Only the statistics differ: they are no part of any score.
    without = updates(1)
    assert facts(plain.settle(updates={c: cut(u) for c, u in without.items()})) == facts(
        Server(normed(None), seed=1).settle(
            updates={
                c: cut(u) | {n: 0 * a for n, a in normed(None).items() if n not in SHAPES}
                for c, u in without.items()
            }
        )
    )


def test_a_model_of_running_statistics_alone_is_scored():
    only = {"running_mean": np.zeros(400, np.float32)}
    sent = {c: {"running_mean": u} for c, u in updates(1, parameters=400).items()}
    assert len(Server(only, seed=1).settle(updates=sent).scores) == 5


def test_the_order_of_clients_does_not_matter():
    ours, theirs = new(**PAYING), new(**PAYING)
    for number in (1, 2):
        sent = updates(number)
        turned = dict(reversed(sent.items()))
        assert facts(ours.settle(updates=sent)) == facts(theirs.settle(updates=turned))
    np.testing.assert_array_equal(ours.model, theirs.model)


def test_models_and_updates_agree():
    # Small whole numbers: adding the model and taking it away again loses nothing.
    start = np.round(model() * 8)
    rounded = {c: np.round(u * 1000) for c, u in updates(1).items()}
    ours, theirs = Server(start, seed=3), Server(start, seed=3)
    told = facts(ours.settle(updates=rounded))
    assert facts(theirs.settle({c: start + u for c, u in rounded.items()})) == told
    np.testing.assert_array_equal(ours.model, theirs.model)


def test_clients_may_have_numbers_as_names():
    sent = dict(enumerate(updates(1).values()))
    result = new().settle(updates=sent, sizes=dict.fromkeys(sent, 10), labels={0: "first"})
    assert list(result.scores) == ["0", "1", "2", "3", "4"]


def test_arrays_may_have_numbers_as_names():
    server = Server(dict(enumerate(cut(model()).values())), seed=5)
    sent = {c: dict(enumerate(cut(u).values())) for c, u in updates(1).items()}
    assert server.settle(updates=sent).rejected == {}


# --- what it refuses


def spoiled(fault):
    """The reply of "dan" with a fault; anything but a mapping of arrays is taken as it is."""
    arrays = cut(updates(1)["dan"].copy())
    return fault(arrays)


def with_value(value):
    def fault(arrays):
        arrays["in.bias"][4] = value
        return arrays

    return fault


FAULTS = {
    "nan": (with_value(np.nan), r"in\.bias must be finite, got nan at 4"),
    "infinite": (with_value(np.inf), r"in\.bias must be finite, got inf at 4"),
    "shape": (
        lambda a: a | {"in.bias": a["in.bias"][:7]},
        r"in\.bias must have shape \(60,\), got \(7,\)",
    ),
    "broadcast": (
        lambda a: a | {"in.bias": np.ones(1, np.float32)},
        r"in\.bias must have shape \(60,\), got \(1,\)",
    ),
    "missing": (
        lambda a: {n: v for n, v in a.items() if n != "in.bias"},
        r"arrays must be those of the global model, got 3 for 4; missing 'in\.bias'",
    ),
    "unknown": (
        lambda a: a | {"more": np.zeros(3)},
        "arrays must be those of the global model, got 5 for 4; unknown 'more'",
    ),
    "a name that is no text": (
        lambda a: a | {7: np.zeros(3)},
        "arrays must be those of the global model, got 5 for 4; unknown '7'",
    ),
    "no mapping": (lambda a: list(a.values()), "a reply must be arrays by name, got list"),
    "nothing": (lambda _: None, "a reply must be arrays by name, got NoneType"),
    "text": (lambda a: a | {"in.bias": "abc"}, r"in\.bias must be numbers, got <U3"),
    "complex": (lambda a: a | {"in.bias": a["in.bias"] * 1j}, r"in\.bias must be numbers, got c"),
    "object": (lambda a: a | {"in.bias": object()}, r"in\.bias must be numbers, got object"),
    "ragged": (lambda a: a | {"in.bias": [[1], [1, 2]]}, r"in\.bias must be an array, got "),
    "absurd": (
        lambda a: a | {"in.bias": a["in.bias"] * 1e12},
        r"the update's norm must be at most [\d.e+]+, got [\d.e+]+",
    ),
    "overflow": (
        lambda a: a | {"in.bias": a["in.bias"].astype(np.float64) * 1e60},
        "the update must be finite, got a value beyond its type's range",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_one_bad_reply_is_refused_with_rule_and_value_and_changes_nobody_else(name):
    fault, reason = FAULTS[name]
    good = {c: cut(u) for c, u in updates(1).items()}
    without = {c: a for c, a in good.items() if c != "dan"}
    ours, theirs = Server(cut(model()), seed=5, **PAYING), Server(cut(model()), seed=5, **PAYING)
    result, expected = (
        ours.settle(updates=good | {"dan": spoiled(fault)}),
        theirs.settle(updates=without),
    )
    assert list(result.rejected) == ["dan"]
    assert re.match(reason, result.rejected["dan"]), result.rejected["dan"]
    assert facts(result) | {"rejected": {}} == facts(expected)
    for name_, array in theirs.model.items():
        np.testing.assert_array_equal(ours.model[name_], array)
    assert ours.contributions()["dan"].flag.kind is Kind.REFUSED
    # and it may come back
    again = ours.settle(updates={c: cut(u) for c, u in updates(2).items()})
    assert again.rejected == {}


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (-3, "size must be positive and at most 2^63 - 1, got -3"),
        (0, "size must be positive and at most 2^63 - 1, got 0"),
        (math.nan, "size must be positive and at most 2^63 - 1, got nan"),
        (2**70, "size must be positive and at most 2^63 - 1, got 1180591620717411303424"),
        ("many", "size must be a number, got 'many'"),
        (True, "size must be a number, got True"),
    ],
)
def test_a_bad_size_costs_that_client_its_round(size, reason):
    result = new().settle(updates=updates(1), sizes=dict.fromkeys(CLIENTS, 10) | {"bob": size})
    assert result.rejected == {"bob": reason}
    assert len(result.scores) == 4


def test_sizes_are_weights():
    sizes = dict(zip(CLIENTS, (10, 20, 30, np.int64(40), 1000), strict=True))
    weights = new().settle(updates=updates(1), sizes=sizes).weights
    assert weights == {"ann": 0.1, "bob": 0.2, "cat": 0.3, "dan": 0.4, "eve": 0.0}


def test_a_claim_of_one_example_shields_nobody():
    sizes = {**dict.fromkeys(CLIENTS, 1000), "eve": 1}
    for rules in ({}, {"weighting": "uniform"}, {"sizes": "ignore"}):
        result = new(**rules).settle(updates=updates(1), sizes=sizes)
        assert result.flags["eve"].kind is Kind.INDEPENDENT, rules


def unchanged(server, call, error, match):
    before, model_before = server.state, np.copy(server.model)
    with pytest.raises(error, match=match):
        call()
    assert server.state is before
    np.testing.assert_array_equal(server.model, model_before)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"sizes": {"zoe": 3}}, UpdatesError, "sizes must be of clients that replied, got 'zoe'"),
        ({"models": {"ann": 1}}, SettingError, "give models or updates, got both"),
        ({"models": {}}, SettingError, "give models or updates, got both"),
        ({"updates": None}, SettingError, "give models or updates, got neither"),
        ({"updates": [1, 2]}, UpdatesError, "replies must be a mapping from client, got list"),
    ],
)
def test_a_call_that_makes_no_sense_changes_nothing(arguments, error, match):
    server = new()
    server.settle(updates=updates(1))
    call = {"updates": updates(2)} | arguments
    unchanged(server, lambda: server.settle(**call), error, match)


def test_names_that_are_the_same_text_are_refused():
    server = new()
    sent = list(updates(1).values())
    twice = {1: sent[0], "1": sent[1], "2": sent[2]}
    match = "clients must have different names as text, got '1' twice"
    unchanged(server, lambda: server.settle(updates=twice), UpdatesError, match)


def test_arrays_whose_names_are_the_same_text_are_refused():
    with pytest.raises(UpdatesError, match="different names as text, got '1' twice"):
        Server({1: np.zeros(3), "1": np.zeros(4)})


def test_when_all_are_refused_for_one_reason_the_fault_is_not_a_clients():
    server = new()
    server.settle(updates=updates(1))
    bad = {c: u[:-1] for c, u in updates(2).items()}
    match = r"all 5 replies were refused: the vector must have shape"
    unchanged(server, lambda: server.settle(updates=bad), RoundFailedError, match)
    run(server, 1, first=2)
    assert server.round == 2


def test_when_all_are_refused_for_different_reasons_the_round_is_skipped():
    server, sent = new(), updates(1)
    before = server.model.copy()
    result = server.settle(updates={c: u[: -1 - row] for row, (c, u) in enumerate(sent.items())})
    assert set(result.rejected) == set(CLIENTS)
    assert result.scores == {}
    assert server.round == 1
    np.testing.assert_array_equal(server.model, before)


def refused(*faults, words="the same"):
    """Let a new server judge a round of which nothing is left."""
    nothing = Replies([], np.empty((0, PARAMETERS), np.float32), [])
    server = new()
    rejected = [Rejection(f"c{n}", words, fault=fault) for n, fault in enumerate(faults)]
    return server.judge_replies(nothing, rejected)


def test_the_cause_of_a_refusal_is_a_value_not_its_words():
    three, four = (Fault(Rule.SHAPE, ("w", shape)) for shape in ("(3,)", "(4,)"))
    with pytest.raises(RoundFailedError, match="all 2 replies were refused: the same"):
        refused(three, Fault(Rule.SHAPE, ("w", "(3,)")))
    for faults in ((three, four), (three, Fault(Rule.ROUND)), (three, None), (None, None)):
        assert set(refused(*faults).rejected) == {"c0", "c1"}


def test_what_is_broken_in_a_reply_is_told_as_a_value():
    sent = updates(1)
    names = list(sent)
    sent[names[0]] = sent[names[0]][:-1]
    sent[names[1]] = sent[names[1]] * np.nan
    sent[names[2]] = sent[names[2]].astype(str)
    server = new()
    _, rejected = read_sent(server.sight, sent, None, {names[3]: -1}, {}, vector=True)
    rules = {refusal.client: refusal.fault.rule for refusal in rejected}
    assert rules == dict(
        zip(names, (Rule.SHAPE, Rule.FINITE, Rule.NUMBERS, Rule.SIZE), strict=False)
    )


@pytest.mark.parametrize("usable", [0, 1])
def test_with_fewer_than_two_the_round_is_skipped_and_the_model_stays(usable, tmp_path):
    sent = dict(list(updates(1).items())[:usable])
    gated = {"weighting": "gated", **PAYING}
    with new(ledger=tmp_path / "a.ledger", **gated) as server:
        before = server.model.copy()
        result = server.settle(updates=sent)
        np.testing.assert_array_equal(server.model, before)
        assert result.scores == result.weights == result.payments == {}
        assert server.round == 1
        assert [total.flag.kind for total in server.contributions().values()] == [
            Kind.SKIPPED
        ] * usable
        run(server, 1, first=2)
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        first, second = ledger.rounds()
        assert ledger.verify().ok
    assert [refused.kind for refused in first.rejected] == [Kind.SKIPPED] * usable
    assert all("scores need 2 usable replies, got 1" in r.reason for r in first.rejected)
    assert first.clients == ()
    assert len(second.clients) == 5


def test_a_scorer_that_cannot_score_skips_the_round():
    server = Server(np.zeros(3, np.float32), scorer="pca", weighting="score", seed=1)
    result = server.settle(updates={c: u[:3] for c, u in updates(1).items()})
    assert len(result.rejected) == 5
    assert all(r.startswith("round skipped: ") for r in result.rejected.values())


def test_a_model_that_would_not_be_finite_stays_as_it_was():
    server = Server(np.full(2000, 60000, np.float16), seed=1)
    sent = {c: 20000 + 1000 * u.astype(np.float32) for c, u in updates(1, parameters=2000).items()}
    result = server.settle(updates=sent)
    assert len(result.scores) == 5
    np.testing.assert_array_equal(server.model, np.full(2000, 60000, np.float16))
    assert server.round == 1
    assert server.contributions()["ann"].rounds == 1


class Accuser:
    """A scorer that accuses everybody."""

    def score(self, inputs, rng):
        del rng
        flags = [Flag(Kind.INDEPENDENT)] * inputs.clients
        nobody = np.zeros(inputs.clients, dtype=bool)
        return Contributions.of("accuser", np.zeros(inputs.clients), flags=flags, eligible=nobody)


def test_when_everybody_is_excluded_the_model_stays():
    server = new(scorer=Accuser(), reward=PAYING["reward"])
    before = server.model.copy()
    result = server.settle(updates=updates(1))
    assert all(flag.accuses for flag in result.flags.values())
    assert not any(result.weights.values())
    np.testing.assert_array_equal(server.model, before)
    assert not any(result.payments.values())
    assert server.round == 1


def test_replays_by_everybody_are_judged_by_nobody():
    """Simple models train along what is known: what all do is no evidence against one."""
    server = new()
    before = server.settle(updates=updates(1))
    replay = server.state.history.updates[0]
    after = server.settle(updates=dict.fromkeys(CLIENTS, replay))
    accused = {name: flag for name, flag in after.flags.items() if flag and flag.accuses}
    assert accused == {"eve": Flag(Kind.STANDING)}
    assert before.flags["eve"].kind is Kind.INDEPENDENT


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"scorer": "merti"}, UnknownNameError, "did you mean 'merit'"),
        ({"scorer": 3}, SettingError, "scorer must be a name or a Scorer, got 3"),
        ({"reward": "postive"}, UnknownNameError, "did you mean 'positive'"),
        ({"reward": "positive:budget=many"}, SettingError, "budget of a reward must be a number"),
        ({"reward": 10}, SettingError, "reward must be a RewardRule or its name, got 10"),
        ({"weighting": "gatd"}, UnknownNameError, "did you mean 'gated'"),
        ({"wieghting": "gated"}, UnknownNameError, "did you mean 'weighting'"),
        ({"ledgr": "a.ledger"}, UnknownNameError, "did you mean 'ledger'"),
        ({"rule": "mode"}, UnknownNameError, "rule must be one of"),
        ({"alpha": -1}, SettingError, "alpha must be at least 0, got -1"),
        ({"rules": RoundRules(), "alpha": 1}, SettingError, "got both: alpha"),
        ({"rules": "merit"}, SettingError, "rules must be RoundRules, got 'merit'"),
        ({"older": 0}, InvalidInputError, "older must be"),
        ({"remembered": -1}, InvalidInputError, "remembered must be at least 0, got -1"),
        ({"seed": -1}, SettingError, "seed must be at least 0, got -1"),
        ({"seed": 1.5}, SettingError, "seed must be an integer, got 1.5"),
        ({"key": "secret"}, SettingError, "key must be a SigningKey, got 'secret'"),
        ({"record": 3}, SettingError, "record must be a callable, got 3"),
        ({"layers": [0, 1]}, InvalidInputError, "layers must have one entry per parameter"),
        ({"layers": np.full(PARAMETERS, -1)}, InvalidInputError, "layers must not be negative"),
        ({"scored": [PARAMETERS]}, InvalidInputError, f"scored must be .* less than {PARAMETERS}"),
        ({"scored": [0.5]}, InvalidInputError, "scored must be a vector of integers, got float64"),
        ({"scored": []}, InvalidInputError, "scored must be a vector of integers"),
        ({"touched": [1, 0]}, InvalidInputError, "touched must not decrease"),
        ({"touched": [-1, 0]}, InvalidInputError, "touched must be at least 0"),
        ({"touched": [0] * (PARAMETERS + 1)}, InvalidInputError, "touched must be of at most"),
    ],
)
def test_what_is_wrong_with_settings_is_said_at_once(settings, error, match, tmp_path):
    with pytest.raises(error, match=match):
        Server(model(), ledger=tmp_path / "a.ledger", **settings)
    assert not (tmp_path / "a.ledger").exists()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (np.zeros((3, 4)), r"a model must be a vector or a mapping, got \(3, 4\)"),
        (np.array([1.0, np.nan]), "the global model must be finite"),
        (np.arange(4), "a global model must have floating-point arrays, got none"),
        ({}, "a global model must have floating-point arrays, got none"),
        ({"a": "text"}, "a must be numbers"),
    ],
)
def test_what_is_wrong_with_the_model_is_said_at_once(given, match, tmp_path):
    with pytest.raises(UpdatesError, match=match):
        Server(given, ledger=tmp_path / "a.ledger")
    assert not (tmp_path / "a.ledger").exists()


def test_names_of_scorers_and_rewards_are_the_same_as_the_objects():
    named = new(scorer="merit", reward="positive:budget=1000")
    assert named.rules == new(rules=RoundRules(reward="positive:budget=1000")).rules
    assert run(named, 2) == run(new(**PAYING), 2)


# --- the halves are the whole


@pytest.mark.parametrize("weighting", ["engine", "gated", "uniform"])
def test_settle_is_judge_combine_and_write(weighting, tmp_path):
    settings = {"weighting": weighting, **PAYING}
    whole = new(ledger=tmp_path / "whole.ledger", **settings)
    halves = new(ledger=tmp_path / "halves.ledger", **settings)
    for number in (1, 2, 3):
        sent = updates(number)
        sizes = {c: 10 + row for row, c in enumerate(sent)}
        labels = {"ann": "Ann"}
        judged = halves.judge(updates=sent, sizes=sizes, labels=labels)
        halves.combine()
        halves.note({"number": number})
        assert halves.write().round == number
        told = whole.settle(
            updates=sent, sizes=sizes, labels=labels, evaluate=lambda _, n=number: {"number": n}
        )
        assert facts(told) == facts(judged)
        np.testing.assert_array_equal(whole.model, halves.model)
    whole.close()
    halves.close()
    assert content(tmp_path / "whole.ledger") == content(tmp_path / "halves.ledger")
    assert whole.contributions() == halves.contributions()
    assert whole.verdicts() == halves.verdicts()


def content(path):
    with Ledger.open(path) as ledger:
        assert ledger.verify().ok
        return [repr(dataclasses.replace(record, seconds={})) for record in ledger.rounds()]


def test_an_engine_that_combines_by_itself_publishes_its_model():
    ours, engine = new(), new()
    for number in (1, 2, 3):
        told = ours.settle(updates=updates(number))
        assert facts(engine.judge(updates=updates(number))) == facts(told)
        assert engine.round == number
        engine.publish(ours.model)
        engine.publish(ours.model)  # which says nothing new
    assert len(engine.state.history.models) == 4


def test_a_model_of_another_layout_cannot_be_published():
    server = Server(cut(model()), seed=1)
    with pytest.raises(UpdatesError, match="must have the arrays of the one before"):
        server.publish({"a": np.zeros(3)})


def test_combine_needs_a_judged_round():
    server = new()
    with pytest.raises(SettingError, match="must be judged before it is combined"):
        server.combine()
    server.settle(updates=updates(1))
    with pytest.raises(SettingError, match="must be judged before it is combined"):
        server.combine()


def test_a_context_manager_writes_what_is_under_way_and_closes(tmp_path):
    path = tmp_path / "a.ledger"
    with new(ledger=path) as server:
        server.judge(updates=updates(1))
        server.combine()
        server.note({"accuracy": 0.5})
    with Ledger.open(path) as ledger:
        (only,) = ledger.rounds()
    assert only.metrics == {"accuracy": 0.5}


def test_a_seed_repeats_scores_and_no_seed_has_fresh_ones():
    settings = {"scorer": "pca", "weighting": "score"}
    assert run(new(**settings), 2) == run(new(**settings), 2)
    assert run(new(**settings), 1) != run(new(**settings, seed=6), 1)
    assert run(new(**settings, seed=None), 1) != run(new(**settings, seed=None), 1)


# --- what is known


def test_contributions_are_sums_over_results():
    server = new(**PAYING)
    sent = [updates(n) for n in (1, 2, 3)]
    sent[1]["bob"] = sent[1]["bob"][:-1]
    results = [server.settle(updates=replies, labels={"ann": "Ann"}) for replies in sent]
    totals = server.contributions()
    assert set(totals) == set(CLIENTS)
    for client in CLIENTS:
        mine = [r for r in results if client in r.scores]
        total = totals[client]
        assert total.rounds == len(mine)
        assert total.score == sum(r.scores[client] for r in mine)
        assert total.weight == sum(r.weights[client] for r in mine)
        assert total.reward == sum(r.payments.get(client, 0) for r in results)
        flags = [r.flags[client] for r in mine]
        assert total.flagged == sum(flag is not None and flag.accuses for flag in flags)
        assert total.rejected == sum(client in r.rejected for r in results)
    assert totals["bob"].rejected == 1
    assert totals["eve"].flagged == 3
    assert totals["eve"].reward == 0
    assert totals["ann"].label == "Ann"
    assert sum(total.reward for total in totals.values()) == 3000


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weighting": "gated"},
        {"scorer": "conditional"},
        {"scorer": "pca", "weighting": "score"},
        {"scorer": "exact", "weighting": "gated"},
    ],
    ids=str,
)
def test_every_zero_has_a_flag_with_a_kind_in_result_ledger_and_page(settings, tmp_path):
    path, results = tmp_path / "run.ledger", []
    with new(**settings, **PAYING, ledger=path) as server:
        for number in range(1, 5):
            sent = updates(number)
            sent["rev"] = -sent["ann"]
            sent["twin"] = sent["ann"].copy()
            sent["none"] = 0 * sent["ann"]
            sent["short"] = sent["ann"][1:]
            sent["stale"] = (
                server.state.history.updates[0] if number > 1 else sent["none"] + np.float32(1e-3)
            )
            results.append(server.settle(updates=sent))
    with Ledger.open(path, read_only=True) as ledger:
        records = list(ledger.rounds())
    page = page_data(open_source(path))
    told = {
        client["name"]: dict(zip(client["at"], client["why"], strict=False))
        for client in page["clients"]
    }
    zeros = 0
    for place, (result, record) in enumerate(zip(results, records, strict=True)):
        stored = {client.client: client for client in record.clients}
        assert set(result.flags) == {*sent}
        for client in result.scores:
            if result.weights[client] == 0 or result.payments.get(client) == 0:
                zeros += 1
                assert isinstance(result.flags[client].kind, Kind), (place, client)
                assert stored[client].flag == result.flags[client]
                assert told[client][place], "the page has the reason's number"
        assert result.flags["short"].kind is Kind.REFUSED
        assert [(r.client, r.kind) for r in record.rejected] == [("short", Kind.REFUSED)]
        assert [place, "short"] in [
            [at, page["clients"][n]["name"]] for at, n, _ in page["rejected"]
        ]
    assert zeros


@dataclass(frozen=True)
class Halved:
    """Wraps another scorer, and hands on what it needs."""

    inner: object

    @property
    def needs(self):
        return needs_of(self.inner)

    def score(self, inputs, rng):
        result = self.inner.score(inputs, rng)
        return dataclasses.replace(result, scores=result.scores / 2)


@pytest.mark.parametrize("wrap", [lambda scorer: scorer, Halved], ids=["plain", "wrapped"])
def test_reputation_gets_the_trust_that_it_asks_for(wrap):
    """Whoever agreed before counts for more now: two rounds are not twice one round."""
    server = new(scorer=wrap(make_scorer("reputation")))
    first = server.settle(updates=updates(1))
    known = {client: total.score for client, total in server.contributions().items()}
    second = server.settle(updates=updates(2))
    sent = np.stack([updates(2)[client] for client in CLIENTS])
    trust = [server.state.history.trust[client] for client in CLIENTS]
    assert known == first.scores
    before = [t - w for t, w in zip(trust, second.contributions.work, strict=True)]
    expected = score(sent, method="reputation", trust=before, rng=0).scores
    forgetful = score(sent, method="reputation", rng=0).scores
    factor = 2 if wrap is Halved else 1
    found = np.array([second.scores[client] for client in CLIENTS]) * factor
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert abs(found - forgetful).max() > 1e-3


def test_a_wrapper_around_merit_loses_nothing():
    plain, wrapped = new(**PAYING), new(scorer=Halved(make_scorer("merit")), **PAYING)
    for number in (1, 2, 3):
        one, other = (s.settle(updates=updates(number)) for s in (plain, wrapped))
        assert one.flags == other.flags
        assert one.weights == other.weights
        assert {c: s / 2 for c, s in one.scores.items()} == other.scores
    assert plain.verdicts() == wrapped.verdicts()


def test_labels_and_metrics_reach_the_ledger_and_the_page(tmp_path):
    with new(ledger=tmp_path / "a.ledger", **PAYING) as server:
        seen = []

        def evaluate(new_model):
            seen.append(new_model)
            return {"accuracy": 0.25 * len(seen)}

        for number in (1, 2):
            labels = {"ann": "hospital\x1b[2J \n north" + "x" * 100}
            server.settle(updates=updates(number), labels=labels, evaluate=evaluate)
        np.testing.assert_array_equal(seen[-1], server.model)
        page = server.report(tmp_path / "page.html")
    text = page.read_text()
    assert "ann" in text
    assert "hospital" in text
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        first, second = ledger.rounds()
        assert ledger.verify().ok
    assert [first.metrics, second.metrics] == [{"accuracy": 0.25}, {"accuracy": 0.5}]
    (ann,) = [c for c in first.clients if c.client == "ann"]
    assert ann.label.startswith("hospital[2J north")
    assert len(ann.label) <= 60


def test_a_report_needs_a_ledger(tmp_path):
    with pytest.raises(SettingError, match="got a server without one"):
        new().report(tmp_path / "page.html")


def test_what_cannot_evaluate_is_refused_before_the_round():
    with new() as server:
        with pytest.raises(SettingError, match="evaluate must be callable, got 3"):
            server.settle(updates=updates(1), evaluate=3)
        assert server.round == 0


def test_an_evaluation_that_fails_does_not_lose_the_round(tmp_path):
    def broken(_):
        raise OSError("no test data")

    with new(ledger=tmp_path / "a.ledger") as server:
        with pytest.raises(OSError, match="no test data"):
            server.settle(updates=updates(1), evaluate=broken)
        server.settle(updates=updates(2))
    assert len(content(tmp_path / "a.ledger")) == 2


def test_metrics_of_any_number_type_are_plain_numbers_on_record(tmp_path):
    found = {"half": np.float16(0.5), "one": np.float32(1), "count": np.int64(3), "yes": True}
    settings = {"ledger": tmp_path / "a.ledger", "state": tmp_path / "a.state"}
    with new(**settings) as server:
        server.settle(updates=updates(1), evaluate=lambda _: found)
        with pytest.raises(SettingError, match="metrics must be numbers, got 'good' for judgement"):
            server.settle(updates=updates(2), evaluate=lambda _: {"judgement": "good"})
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        first, second = ledger.rounds()
    assert first.metrics == {"half": 0.5, "one": 1.0, "count": 3.0, "yes": 1.0}
    assert second.metrics == {}


def test_a_name_that_cannot_be_written_down_is_refused_before_anything_is_done(tmp_path):
    with new(ledger=tmp_path / "a.ledger", state=tmp_path / "a.state") as server:
        server.settle(updates=updates(1))
        sent = updates(2) | {"\ud800": updates(2)["ann"]}
        match = "clients must have names that are valid Unicode"
        unchanged(server, lambda: server.settle(updates=sent), UpdatesError, match)
        server.settle(updates=updates(2))
    assert len(content(tmp_path / "a.ledger")) == 2


def test_the_record_is_handed_on():
    records = []
    server = new(record=records.append)
    run(server, 2)
    assert [record.round for record in records] == [1, 2]
    assert server.contributions()["ann"].score == sum(
        c.score for record in records for c in record.clients if c.client == "ann"
    )


def test_evidence_over_rounds_names_a_rider():
    server = new()
    run(server, 8)
    first, *others = server.verdicts()
    assert first.client == "eve"
    assert first.flagged
    assert not any(verdict.flagged for verdict in others)


def test_rules_without_a_scorer_are_plain_fedavg():
    server = new(scorer=None, weighting="size")
    before, sent = server.model.astype(np.float64), updates(1)
    sizes = {c: 1 + row for row, c in enumerate(CLIENTS)}
    result = server.settle(updates=sent, sizes=sizes)
    mean = sum(sizes[c] * sent[c].astype(np.float64) for c in CLIENTS) / 15
    np.testing.assert_allclose(server.model, before + mean, atol=1e-6)
    assert all(math.isnan(score) for score in result.scores.values())
    assert result.contributions is None


def test_a_scorer_of_ones_own_is_used():
    class Sum:
        def score(self, inputs, rng):
            del rng
            return Contributions.of("sum", inputs.updates.sum(axis=1, dtype=np.float64))

    sent = updates(1)
    result = new(scorer=Sum()).settle(updates=sent)
    assert result.scores["bob"] == pytest.approx(sent["bob"].sum(dtype=np.float64))


def test_errors_are_of_one_family():
    with pytest.raises(FedMeritError):
        Server(model(), nonsense=1)


def test_a_server_that_was_closed_settles_nothing(tmp_path):
    server = new(ledger=tmp_path / "run.ledger")
    server.close()
    with pytest.raises(SettingError, match="must be open to settle a round"):
        server.settle(updates={"a": np.ones(server.model.size), "b": np.ones(server.model.size)})
    assert server.round == 0


@pytest.mark.parametrize("wrong", [{"norm_bound": "3"}, {"alpha": "5"}, {"alpha": True}])
def test_a_number_as_text_is_refused_before_anybody_trains(wrong):
    with pytest.raises(SettingError, match="must be a number"):
        Server(np.zeros(10), weighting="gated", **wrong)


def test_a_wrapper_around_any_scorer_can_hand_on_what_it_needs():
    for name in SCORERS:
        assert isinstance(needs_of(make_scorer(name)), Needs)
