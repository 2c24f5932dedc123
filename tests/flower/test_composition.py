"""FedMerit before any strategy: nothing changes unless somebody is excluded."""

import gc
import inspect
import logging

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedYogi,
    Krum,
    MultiKrum,
    QFedAvg,
    Result,
)

from fedmerit import Contributions, Flag, Kind, Ledger, Merit, RoundRules, reward_rule
from fedmerit.errors import InvalidInputError, LedgerError, SettingError
from fedmerit.flower import FedMerit
from tests.flower.federation import (
    CLIENTS,
    FIRST,
    MODEL,
    NOISY,
    REPLAYER,
    Federation,
    assert_same,
    initial,
    plain,
    record,
    start,
)

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")


@pytest.fixture(autouse=True, scope="module")
def _little_garbage():
    """QFedAvg and Bulyan call the garbage collector for every reply: spare it what was there."""
    gc.freeze()
    yield
    gc.unfreeze()


class Halfway(FedAvg):
    """A user's own: goes half of the way."""

    def configure_train(self, server_round, arrays, config, grid):
        self.before = plain(arrays)
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        if arrays is None:
            return arrays, metrics
        half = {n: (self.before[n] + v) / 2 for n, v in plain(arrays).items()}
        return record(half), metrics


class OwnLoop(FedAvg):
    """A user's own `start`, as in Flower's advanced-pytorch: its own loop, its own evaluation."""

    def start(
        self,
        grid,
        initial_arrays,
        num_rounds=3,
        timeout=3600,
        train_config=None,
        evaluate_config=None,
        evaluate_fn=None,
    ):
        del evaluate_config
        train_config, result, arrays = train_config or ConfigRecord(), Result(), initial_arrays
        for number in range(1, num_rounds + 1):
            asked = self.configure_train(number, arrays, train_config, grid)
            replies = grid.send_and_receive(messages=asked, timeout=timeout)
            combined, metrics = self.aggregate_train(number, replies)
            if combined is not None:
                result.arrays = arrays = combined
            if metrics is not None:
                result.train_metrics_clientapp[number] = metrics
            if evaluate_fn is not None:
                result.evaluate_metrics_serverapp[number] = evaluate_fn(number, arrays)
        return result


def privacy(**settings):
    """Central privacy, which makes sense: the server adds noise to what is combined.

    It does not where the exclusion of a client must itself be private: scores, flags and payments
    are functions of raw updates. And noise is scaled to `num_sampled_clients`: where clients are
    excluded, the mean is over fewer, so that each of them can move it by more than was assumed.
    """
    return DifferentialPrivacyServerSideFixedClipping(FedAvg(**settings), 0.1, 0.5, CLIENTS)


INNER = {
    "FedAvg": FedAvg,
    "FedAdam": FedAdam,
    "FedYogi": FedYogi,
    "FedAdagrad": FedAdagrad,
    "FedAvgM": lambda **s: FedAvgM(server_momentum=0.9, **s),
    "FedProx": lambda **s: FedProx(proximal_mu=0.1, **s),
    "FedMedian": FedMedian,
    "FedTrimmedAvg": FedTrimmedAvg,
    "Krum": lambda **s: Krum(num_malicious_nodes=1, **s),
    "MultiKrum": lambda **s: MultiKrum(num_malicious_nodes=1, num_nodes_to_select=3, **s),
    "Bulyan": lambda **s: Bulyan(num_malicious_nodes=1, **s),
    "QFedAvg": lambda **s: QFedAvg(client_learning_rate=0.1, **s),
    "privacy": privacy,
    "own aggregate_train": Halfway,
    "own start": OwnLoop,
}


def listening(strategy):
    """Let a strategy note the messages that reach it, by round."""
    got = {}

    class Listening(type(strategy)):
        def aggregate_train(self, server_round, replies):
            replies = list(replies)
            got[server_round] = replies
            return super().aggregate_train(server_round, replies)

    strategy.__class__ = Listening
    return strategy, got


@pytest.mark.parametrize("name", INNER)
def test_with_honest_clients_nothing_changes(name):
    bare = start(INNER[name](fraction_evaluate=0.0), Federation())
    records = []
    strategy = FedMerit(INNER[name](fraction_evaluate=0.0), seed=1, record=records.append)
    ours = start(strategy, Federation())
    assert_same(ours.arrays, bare.arrays)
    assert [len(r.clients) for r in records] == [CLIENTS] * 3
    assert not any(client.flagged for r in records for client in r.clients)
    assert not np.array_equal(ours.arrays["a.weight"].numpy(), initial()["a.weight"].numpy())
    for number, metrics in bare.train_metrics_clientapp.items():
        told = ours.train_metrics_clientapp[number]
        assert {key: told[key] for key in metrics} == dict(metrics)


@pytest.mark.parametrize("name", INNER)
def test_excluded_replies_do_not_reach_the_strategy_inside_and_others_are_untouched(name):
    inner, got = listening(INNER[name](fraction_evaluate=0.0))
    records = []
    federation = Federation(riders_from=2)
    ours = start(FedMerit(inner, seed=1, record=records.append), federation)
    assert len(got[1]) == CLIENTS
    for number in (2, 3):
        nodes = [message.metadata.src_node_id for message in got[number]]
        assert set(nodes) == set(range(FIRST, FIRST + CLIENTS)) - {REPLAYER, NOISY}
        assert all(m is federation.sent[number, n] for m, n in zip(got[number], nodes, strict=True))
        told = {client.client: client for client in records[number - 1].clients}
        assert told[str(REPLAYER)].flag.kind is Kind.EXPLAINED
        assert told[str(NOISY)].flag.kind is Kind.INDEPENDENT
        assert told[str(REPLAYER)].weight == told[str(NOISY)].weight == 0.0
    bare = start(INNER[name](fraction_evaluate=0.0), Federation(riders_from=2, silent=True))
    assert_same(ours.arrays, bare.arrays)


@pytest.mark.parametrize("name", ["FedAvg", "own start", "privacy"])
def test_records_do_not_depend_on_the_loop(name, tmp_path):
    path = tmp_path / "run.ledger"
    federation = Federation(riders_from=2)

    def evaluate(number, arrays):
        return MetricRecord({"seen": float(arrays["a.bias"].numpy().sum()), "number": number})

    strategy = FedMerit(INNER[name](), seed=1, ledger=path)
    result = start(strategy, federation, evaluate_fn=evaluate)
    with Ledger.open(path) as ledger:
        rounds = list(ledger.rounds())
        assert ledger.verify().ok
    assert [r.round for r in rounds] == [1, 2, 3]
    for number in (1, 2, 3):
        metrics = result.evaluate_metrics_serverapp[number]
        assert rounds[number - 1].metrics["seen"] == metrics["seen"]
        assert rounds[number - 1].metrics["number"] == number
        assert "train/train_loss" in rounds[number - 1].metrics


def test_our_hooks_can_be_called_by_a_loop_of_ones_own(tmp_path):
    """A subclass of FedMerit with its own `start` never calls ours."""

    class Own(FedMerit):
        start = OwnLoop.start

    told = []
    for kind in (FedMerit, Own):
        path = tmp_path / f"{kind.__name__}.ledger"
        strategy = kind(seed=1, ledger=path, fraction_evaluate=0.0)
        result = start(strategy, Federation(riders_from=2))
        strategy.close()
        with Ledger.open(path) as ledger:
            rounds = [[repr(c) for c in r.clients] for r in ledger.rounds()]
        told.append((rounds, plain(result.arrays)["a.weight"].tobytes()))
    assert len(told[0][0]) == 3
    assert told[0] == told[1]


def test_weights_on_record_are_those_of_fedavg():
    records = []
    start(FedMerit(FedAvg(), seed=1, record=records.append), Federation(riders_from=2))
    claims = {str(FIRST + row): 10 + row for row in range(CLIENTS)}
    for told, out in ((records[0], set()), (records[1], {str(REPLAYER), str(NOISY)})):
        used = {client: size for client, size in claims.items() if client not in out}
        for client in told.clients:
            expected = used.get(client.client, 0) / sum(used.values())
            assert client.weight == pytest.approx(expected, rel=1e-12)
            assert client.num_examples == claims[client.client]


def test_the_size_is_known_also_through_a_wrapper():
    records = []
    start(FedMerit(privacy(), seed=1, record=records.append), Federation())
    assert [c.num_examples for c in records[0].clients] == [10 + row for row in range(CLIENTS)]


@pytest.mark.parametrize("kind", [FedAvg, FedAdam, FedMedian, Krum])
def test_counters_of_batch_normalisation(kind):
    # FedAvg makes float64 of an int64 counter, so clients get and send another type from round 2.
    given = initial(**{"a.num_batches_tracked": np.array(0, np.int64)})
    bare = start(kind(fraction_evaluate=0.0), Federation(), arrays=given)
    records = []
    strategy = FedMerit(kind(fraction_evaluate=0.0), seed=1, record=records.append)
    ours = start(strategy, Federation(), arrays=given)
    assert_same(ours.arrays, bare.arrays)
    assert [len(r.clients) for r in records] == [CLIENTS] * 3
    assert ours.arrays["a.num_batches_tracked"].numpy() != 0


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda _: np.array([1, 2], np.int64), r"a.seen must have shape (), got (2,)"),
        (lambda _: np.array(np.nan), "a.seen must be finite, got nan at 0"),
        (lambda _: np.array("many"), "a.seen must be"),
    ],
    ids=["shape", "nan", "text"],
)
def test_a_bad_counter_concerns_its_client_only(spoil, reason):
    """The strategy inside combines counters as well: a bad one must not reach it."""

    class Spoiling(Federation):
        def count(self, value, node):
            return spoil(value) if node == NOISY else super().count(value, node)

    given = initial(**{"a.seen": np.array(0, np.int64)})
    records = []
    strategy = FedMerit(FedAvg(fraction_evaluate=0.0), seed=1, record=records.append)
    result = start(strategy, Spoiling(), arrays=given, rounds=2)
    for told in records:
        assert [r.client for r in told.rejected] == [str(NOISY)]
        assert told.rejected[0].reason.startswith(reason)
        assert len(told.clients) == CLIENTS - 1
    assert result.arrays["a.seen"].numpy() > 0


def test_records_of_another_name_concern_their_client_only():
    """FedAvg refuses a round whose records are not named alike."""

    class Renaming(Federation):
        def reply(self, node, message):
            reply = super().reply(node, message)
            if node == NOISY:
                (arrays,) = reply.content.array_records.values()
                (metrics,) = reply.content.metric_records.values()
                reply = Message(RecordDict({"other": arrays, "metrics": metrics}), reply_to=message)
            return reply

    records = []
    strategy = FedMerit(FedAvg(fraction_evaluate=0.0), seed=1, record=records.append)
    start(strategy, Renaming(), rounds=2)
    for told in records:
        assert [r.client for r in told.rejected] == [str(NOISY)]
        assert len(told.clients) == CLIENTS - 1


def test_a_hook_on_the_instance_is_kept_and_used():
    calls = []
    inner = FedAvg(fraction_evaluate=0.0)
    original = inner.aggregate_train

    def own(server_round, replies):
        calls.append(server_round)
        return original(server_round, replies)

    inner.aggregate_train = own
    strategy = FedMerit(inner, seed=1)
    start(strategy, Federation())
    assert calls == [1, 2, 3]
    assert inner.aggregate_train is own


def test_a_strategy_can_be_started_again():
    strategy = FedMerit(FedAvg(fraction_evaluate=0.0), seed=1)
    first = start(strategy, Federation())
    second = start(strategy, Federation())
    assert_same(first.arrays, second.arrays)
    # and the one inside is as it was: it may run without us
    assert_same(start(strategy.inner, Federation()).arrays, first.arrays)


class Accuser:
    """A scorer that accuses everybody."""

    def score(self, inputs, rng):
        del rng
        flags = [Flag(Kind.INDEPENDENT)] * inputs.clients
        return Contributions.of("accuser", np.zeros(inputs.clients), flags=flags)


def test_rounds_in_which_all_are_excluded_keep_the_model():
    inner, got = listening(FedAvg(fraction_evaluate=0.0))
    result = start(FedMerit(inner, seed=1, scorer=Accuser()), Federation(), rounds=2)
    assert not got
    assert_same(result.arrays, initial())


def test_fedavgs_arguments_are_in_the_signature():
    ours = inspect.signature(FedMerit).parameters
    for name, parameter in inspect.signature(FedAvg).parameters.items():
        assert ours[name].default == parameter.default, name
    strategy = FedMerit(fraction_train=0.5, min_train_nodes=3)
    assert isinstance(strategy.inner, FedAvg)
    assert (strategy.fraction_train, strategy.inner.min_train_nodes) == (0.5, 3)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: FedMerit(0.5), SettingError, r"strategy must be one of Flower's.*got 0\.5"),
        (lambda: FedMerit(FedAdam), SettingError, "strategy must be one of Flower's"),
        (
            lambda: FedMerit(FedAdam(), fraction_train=0.5),
            SettingError,
            "fraction_train must be given to FedAdam itself",
        ),
        (
            lambda: FedMerit(FedMerit()),
            SettingError,
            "strategy must be one that combines replies, .* got a FedMerit",
        ),
        (lambda: FedMerit(ledger=5), SettingError, "ledger must be a path, got 5"),
        (lambda: FedMerit(ledger=""), SettingError, "ledger must be a path, got ''"),
        (
            lambda: FedMerit(ledger="none/a.ledger"),
            LedgerError,
            "ledger must lie in a folder that is",
        ),
        (lambda: FedMerit(ledger="/"), LedgerError, "ledger must be a file, got the folder /"),
        (lambda: FedMerit(resume="no"), SettingError, "resume must be True or False, got 'no'"),
        (lambda: FedMerit(client_metrics=2), SettingError, "client_metrics must be True or False"),
        (lambda: FedMerit(scorer="merti"), InvalidInputError, "did you mean 'merit'"),
        (lambda: FedMerit(fraction_trian=0.5), InvalidInputError, "did you mean 'fraction_train'"),
    ],
)
def test_what_is_wrong_with_arguments_is_said_at_once(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_some_of_the_nodes_are_asked():
    records = []
    strategy = FedMerit(fraction_train=0.5, fraction_evaluate=0.0, seed=1, record=records.append)
    start(strategy, Federation(), rounds=2)
    assert [len(r.clients) for r in records] == [4, 4]


def test_fedavg_by_arguments_and_inside_are_the_same():
    ours = start(FedMerit(fraction_evaluate=0.0, seed=1), Federation(riders_from=2))
    theirs = start(FedMerit(FedAvg(fraction_evaluate=0.0), seed=1), Federation(riders_from=2))
    assert_same(ours.arrays, theirs.arrays)
    assert list(ours.arrays) == list(MODEL)
    assert isinstance(ours.arrays, ArrayRecord)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "'num-examples'"),
        ({"weighted_by_key": "batches"}, "'batches'"),
        ({"weighting": "gated"}, "'fedmerit, gated'"),
        ({"sizes": "ignore"}, "'nothing, all equally'"),
        ({"sizes": "audited"}, "'num-examples where lengths grow with it, else equally'"),
        (
            {"strategy": DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.1, 1.0, 4)}
            | {"sizes": "ignore"},
            "'nothing, all equally'",
        ),
    ],
    ids=["default", "another key", "gated", "ignore", "audited", "wrapped"],
)
def test_the_log_says_what_replies_are_weighted_by(settings, told, caplog):
    strategy = FedMerit(**settings)
    with caplog.at_level(logging.INFO, "flwr"):
        strategy.summary()
    (line,) = [line for line in caplog.messages if "Weighted by" in line]
    assert line.endswith(f"Weighted by: {told}")
    weigher = getattr(strategy.inner, "strategy", strategy.inner)
    assert weigher.weighted_by_key == settings.get("weighted_by_key", "num-examples")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"scorer": "merti"}, "did you mean 'merit'"),
        ({"reward": "positive"}, "settings it must have: budget"),
        ({"reward": 10}, "reward must be a RewardRule or its name, got 10"),
        ({"rules": "merit"}, "rules must be RoundRules, got 'merit'"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"older": 0}, "older must be at least 1, got 0"),
        ({"key": b"secret"}, "key must be a SigningKey"),
        ({"record": "log"}, "record must be a callable, got 'log'"),
    ],
)
def test_settings_are_refused_before_any_client_trains(settings, match):
    with pytest.raises(InvalidInputError, match=match):
        FedMerit(**settings)


def test_names_are_the_same_as_objects():
    named = FedMerit(scorer="merit", reward="positive:budget=1000")
    assert named.rules == RoundRules(Merit(), reward=reward_rule("positive", budget=1000))
