"""FedMerit in front of any Flower strategy; FedPCA and MedPCA as published."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import INFO, WARNING
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy

from fedmerit.aggregators.weighting import ALPHA
from fedmerit.errors import LedgerError, SettingError
from fedmerit.flags import Flag
from fedmerit.flower.arrays import named
from fedmerit.flower.inner import as_made, changed_since, gathered, restore
from fedmerit.flower.metrics import combine, guarded, readable, scalars
from fedmerit.flower.panel import Hearing
from fedmerit.flower.replies import Asked, ReadReplies, changed, read_replies
from fedmerit.ledger import SigningKey
from fedmerit.quantisers import CpSGD
from fedmerit.scorers import PublishedPCA
from fedmerit.server import RoundRules, Server
from fedmerit.server.history import OLDER_UPDATES, REMEMBERED_CLIENTS
from fedmerit.server.opening import open_server
from fedmerit.server.rules import check_file, check_run
from fedmerit.server.summary import called, lines_of, round_metrics
from fedmerit.types import RoundRecord, Scorer

EvaluateFunction = Callable[[int, ArrayRecord], MetricRecord | None]
MetricsFunction = Callable[[list[RecordDict], str], MetricRecord]
_SHOWN = 3  # clients that a line of the log names
_HOOKS = (
    *("configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate", "summary"),
)


class FedMerit(Strategy):
    """Contributions without test data, in front of any strategy.

    Replies that are refused, or whose clients are excluded, do not reach the strategy inside; all
    others reach it untouched, so that nothing changes unless somebody is excluded, or sent an
    update that is far too long, which is shortened. Clients stay as
    they are.

    Parameters
    ----------
    strategy : Strategy, optional
        Whatever combines the replies: ``FedMerit(FedAdam(...))``. By default Flower's `FedAvg`,
        with the arguments from `fraction_train` to `evaluate_metrics_aggr_fn`, which are its own.
    rules : RoundRules, optional
        How a round is judged and paid; or give single rules: `scorer`, `reward`, ... With a
        `weighting` other than "engine" fedmerit combines the replies, and not the strategy inside.
        With `panel`, those who are asked to evaluate also judge each other's updates.
    ledger : path, optional
        Ledger in which every round is recorded. The state of the server is kept beside it, in
        ``<ledger>.state``: a server that starts again continues the run with its model, its round
        numbers and its evidence.
    resume : bool
        False starts a new run in the ledger.
    key : SigningKey, optional
        Signs what goes into the ledger.
    seed : int, optional
        Makes scores repeatable. A server that pays leaves it out.
    record : callable, optional
        Gets a `RoundRecord` of every round.
    older, remembered : int
        How many global updates and how many clients' last reports the history keeps, of each the
        parameters that scores look at.
    client_metrics : bool
        Put score, weight and so on of every client into the metrics of a round, which Flower prints
        in full: five lines per client. By default they hold a summary; the rest is in the ledger.
    """

    def __init__(
        self,
        strategy: Strategy | None = None,
        *,
        rules: RoundRules | None = None,
        ledger: str | PathLike[str] | None = None,
        resume: bool = True,
        key: SigningKey | None = None,
        seed: int | None = None,
        record: Callable[[RoundRecord], None] | None = None,
        older: int = OLDER_UPDATES,
        remembered: int = REMEMBERED_CLIENTS,
        client_metrics: bool = False,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: MetricsFunction | None = None,
        evaluate_metrics_aggr_fn: MetricsFunction | None = None,
        **settings: Any,
    ) -> None:
        fedavg = {
            "fraction_train": fraction_train,
            "fraction_evaluate": fraction_evaluate,
            "min_train_nodes": min_train_nodes,
            "min_evaluate_nodes": min_evaluate_nodes,
            "min_available_nodes": min_available_nodes,
            "weighted_by_key": weighted_by_key,
            "arrayrecord_key": arrayrecord_key,
            "configrecord_key": configrecord_key,
            "train_metrics_aggr_fn": train_metrics_aggr_fn,
            "evaluate_metrics_aggr_fn": evaluate_metrics_aggr_fn,
        }
        self.inner = _fedavg(fedavg) if strategy is None else _checked(strategy, fedavg)
        self.rules = RoundRules.of(rules, settings, beside=inspect.signature(FedMerit).parameters)
        check_run(seed, key, record, older, remembered)
        self.ledger = None if ledger is None else check_file("ledger", ledger, LedgerError)
        for name, value in (("resume", resume), ("client_metrics", client_metrics)):
            if not isinstance(value, bool):
                raise SettingError(f"{name} must be True or False, got {value!r}")
        self.seed, self.resume = seed, resume
        self._key, self._record = key, record
        self._client_metrics = client_metrics
        self._kept = {"older": older, "remembered": remembered}
        # The inner strategy's own hooks; `start` puts ours in their place.
        self._hooks: dict[str, Any] = {name: getattr(self.inner, name) for name in _HOOKS}
        self._made = gathered(self.inner)
        self._server: Server | None = None
        self._given: ArrayRecord | None = None
        self._arrays: ArrayRecord | None = None
        self._published: ArrayRecord | None = None
        self._continued, self._before = False, 0
        self._asked, self._asked_evaluate = Asked(), Asked()
        self._hearing: Hearing | None = None
        self._evaluates = False

    def __getattr__(self, name: str) -> Any:
        """Return a setting of the strategy inside, such as `fraction_train`."""
        if name == "inner":  # before it is there
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def labels(self) -> dict[str, str]:
        """How clients call themselves, by node id."""
        totals = {} if self._server is None else self._server.contributions()
        return {client: total.label for client, total in totals.items() if total.label}

    @property
    def server(self) -> Server | None:
        """The server of the run; None before the first round."""
        return self._server

    def summary(self) -> None:
        """Log the settings."""
        log(INFO, "\t├──> Contributions, before %s:", type(self.inner).__name__)
        for name, value in self._about().items():
            log(INFO, "\t│\t├── %s: %s", name, value)
        log(INFO, "\t│\t└── ledger: %s", self.ledger)
        with self._weights_told():
            self._hooks["summary"]()

    @contextmanager
    def _weights_told(self) -> Iterator[None]:
        """Let the strategy inside log what replies are really weighted by."""
        key = _size_key(self.inner)
        if key is None or (not self._combines and self.rules.sizes == "claimed"):
            yield
            return
        told = f"{key} where lengths grow with it, else equally"
        if self._combines:
            told = f"fedmerit, {self.rules.weighting}"
        elif self.rules.sizes == "ignore":
            told = "nothing, all equally"
        weigher = _weigher(self.inner)
        weigher.weighted_by_key = told
        try:
            yield
        finally:
            weigher.weighted_by_key = key

    @property
    def _combines(self) -> bool:
        """Whether fedmerit combines the replies instead of the strategy inside."""
        return self.rules.weighting != "engine"

    def _about(self) -> dict[str, object]:
        strategy = f"{type(self).__name__}({type(self.inner).__name__})"
        return {"engine": "flower", "strategy": strategy, **self.rules.settings()}

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFunction | None = None,
    ) -> Result:
        """Run the federation as the strategy inside does; sum up at the end."""
        self.close()
        self._evaluates = evaluate_fn is not None
        self._open(initial_arrays)
        arrays = initial_arrays if self._arrays is None else self._arrays
        with self._rebound():
            try:
                # By name, as apps do: a `start` of somebody's own may have them in another order.
                result = self.inner.start(
                    grid=grid,
                    initial_arrays=arrays,
                    num_rounds=num_rounds,
                    timeout=timeout,
                    train_config=train_config,
                    evaluate_config=evaluate_config,
                    evaluate_fn=None if evaluate_fn is None else self._recorded(evaluate_fn),
                )
            finally:
                self._write()
        if not result.arrays:
            result.arrays = arrays  # every round was skipped: the model is as it was
        if self._server is not None:
            for line in lines_of(self._server.contributions()):
                log(INFO, "\t%s", line)
            self._server.close()
        if self.ledger is not None:
            log(INFO, "next: fedmerit report %s -o report.html", Path(self.ledger).resolve())
        return result

    def close(self) -> None:
        """Write down what is under way and close the ledger; the next round opens it again."""
        if self._server is not None:
            self._server.close()
        self._server = self._given = self._arrays = self._published = None

    @contextmanager
    def _rebound(self) -> Iterator[None]:
        """Let the inner strategy's own `start` call our hooks."""
        own = {name: vars(self.inner)[name] for name in _HOOKS if name in vars(self.inner)}
        for name in _HOOKS:
            setattr(self.inner, name, getattr(self, name))
        try:
            yield
        finally:
            for name in _HOOKS:
                delattr(self.inner, name)
            vars(self.inner).update(own)

    def _open(self, arrays: ArrayRecord) -> Server:
        if self._server is None:
            self._server = open_server(
                dict(named(arrays)),
                self.rules,
                ledger=self.ledger,
                resume=self.resume,
                key=self._key,
                seed=self.seed,
                record=self._record,
                about={"engine": "flower", "strategy": self._about()["strategy"]},
                kept=self._kept,
                say=lambda line: log(INFO, line),
                warn=lambda line: log(WARNING, line),
            )
            made = restore(self.inner, self._server.beside)
            self._given, self._arrays = arrays, arrays
            self._continued, self._before = self._server.round > 0, self._server.round
            if self._server.round:
                self._arrays = _record_of({**self._server.model, **made})
                if any(not np.array_equal(self._arrays[n].numpy(), v) for n, v in named(arrays)):
                    log(
                        WARNING,
                        "the model is the one of round %d, not the initial one that was given; "
                        "resume=False starts a new run",
                        self._server.round,
                    )
        return self._server

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask as the strategy inside does; note who is asked, and with what model."""
        self._write()
        server = self._open(arrays)
        if arrays is self._given and self._arrays is not None:
            arrays = self._arrays  # a run that is continued goes on from where it was
        messages = list(self._hooks["configure_train"](server_round, arrays, config, grid))
        self._asked = Asked(messages)
        if messages:
            if arrays is not self._published:
                server.publish(dict(named(arrays)))
            self._arrays = self._published = arrays
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Judge the round; what is wrong with a reply concerns that reply only."""
        server = self._server
        if server is None or not self._asked.nodes:
            return self._hooks["aggregate_train"](server_round, replies)  # type: ignore[no-any-return]
        read = read_replies(
            self._asked,
            replies,
            server.sight,
            server.state.model,
            _size_key(self.inner),
            keep=not self._combines,
            # Where the strategy inside combines, nobody here needs more than scores look at.
            whole=self._combines or self.rules.panel is not None,
        )
        self._asked = Asked()
        met = server.contributions() if self._continued else {}
        server.judge_replies(read.replies, read.rejected)
        record = server.judged
        seen = {client.client for client in record.clients}
        seen |= {refusal.client for refusal in record.rejected}
        if met and seen and not seen & met.keys():
            log(WARNING, "none of these clients was in this run before: they begin without a past")
        self._continued = self._continued and not seen
        labels = self.labels
        for refusal in record.rejected:
            who = called(refusal.client, labels.get(refusal.client))
            log(WARNING, "round %d, %s: %s", record.round, who, refusal.reason)
        noted: dict[Flag, list[str]] = {}
        for client in record.clients:
            if client.flag is not None and not client.flagged:  # said, and no accusation
                noted.setdefault(client.flag, []).append(called(client.client, client.label))
        for flag, clients in noted.items():
            log(WARNING, "round %d, %s: %s", record.round, _few(clients), flag.words)
        for client in record.clients:
            if client.flagged:
                who = called(client.client, client.label)
                log(WARNING, "round %d, %s flagged: %s", record.round, who, client.reason)
        arrays, metrics = (self._own if self._combines else self._inner)(server_round, read, record)
        found = {} if metrics is None else dict(metrics)
        server.note(scalars(metrics, "train/"))
        return arrays, MetricRecord(
            {**found, **round_metrics(record, clients=self._client_metrics)}
        )

    def _inner(
        self, server_round: int, read: ReadReplies, record: RoundRecord
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let the strategy inside combine the replies of those who were not excluded."""
        weights = {client.client: client.weight for client in record.clients}
        server = self._server
        assert server is not None, "a round was judged"
        shortened = server.shortened()
        equal = None if server.sizes_count else _size_key(self.inner)
        admitted = [
            changed(m, server.layout, server.state.model, shortened.get(str(node)), equal)
            for node, m in read.messages.items()
            if weights.get(str(node), 0.0) > 0
        ]
        if not admitted:
            log(WARNING, "round %d skipped: every client is excluded", record.round)
            return None, None
        # Its rounds go on as well: FedAdam's first steps are corrected for being the first.
        number = server_round + self._before
        arrays, metrics = self._hooks["aggregate_train"](number, admitted)
        if arrays is None:
            return None, metrics
        combined = dict(named(arrays))
        if not all(v.dtype.kind != "f" or np.isfinite(v).all() for v in combined.values()):
            log(WARNING, "round %d skipped: the combined model is not finite", record.round)
            return None, metrics
        # It goes into the state with the round: a server that starts again goes on from it.
        server.publish(combined)
        made = as_made(combined, server.model)
        server.beside = changed_since(self._made, self.inner) | made
        self._published = arrays
        return arrays, metrics

    def _own(
        self, server_round: int, read: ReadReplies, record: RoundRecord
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Combine the replies by our own rules."""
        del server_round
        server = self._server
        assert server is not None, "a round was judged"
        assert self._arrays is not None, "a round was asked for"
        used = {client.client for client in record.clients}
        contents = [content for client, content in read.contents.items() if client in used]
        function = getattr(self.inner, "train_metrics_aggr_fn", None)
        key = _size_key(self.inner) or "num-examples"
        metrics = None if function is None else combine(contents, key, function)
        before = server.state.model
        combined = server.combine()
        if server.state.model is before:
            return None, metrics
        kept = {name: array for name, array in self._arrays.items() if name in server.layout.fixed}
        return ArrayRecord({**_record_of(combined), **kept}), metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask as the strategy inside does; let those who are asked judge candidates as well."""
        messages = list(self._hooks["configure_evaluate"](server_round, arrays, config, grid))
        self._asked_evaluate, self._hearing = Asked(messages), None
        server = self._server
        if messages and self.rules.panel is not None and server is not None and server.under_way:
            self._hearing = Hearing(server)
            messages += list(self._hearing.messages(messages))
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average what can be averaged; the round is recorded now if nothing follows."""
        hearing, self._hearing = self._hearing, None
        usual = replies if hearing is None else list(hearing.usual(replies))
        answers = list(self._asked_evaluate.answers(usual))
        for answer in answers:
            if answer.message is None:
                log(WARNING, "evaluation %d, %d: %s", server_round, answer.node, answer.reason)
        messages = [answer.message for answer in answers if answer.message is not None]
        usable = readable(messages, _size_key(self.inner))
        metrics: MetricRecord | None = None
        if usable:
            metrics = self._hooks["aggregate_evaluate"](server_round, usable)
        if hearing is not None:
            hearing.close(server_round)
        self._note(scalars(metrics, "evaluate/"))
        if not self._evaluates:
            self._write()
        return metrics

    def _recorded(self, evaluate: EvaluateFunction) -> EvaluateFunction:
        """Return the server's evaluation such that what it finds is recorded with the round."""

        def evaluate_and_record(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            found = evaluate(server_round, arrays)
            self._note(scalars(found))
            self._write()
            return found

        return evaluate_and_record

    def _note(self, metrics: Mapping[str, float]) -> None:
        if self._server is not None:
            self._server.note(metrics)

    def _write(self) -> None:
        """Record the round that is over; a server that dies before has lost its model as well."""
        if self._server is not None:
            self._server.write()


class FedPCA(FedMerit):
    """Fed-PCA as published: softmax of pairwise correlated agreement, weighted mean, no guards.

    Clients send floats, which the server quantises as the paper's clients do. Takes what `FedMerit`
    takes, but for a strategy inside and single rules.
    """

    _rule = "mean"

    def __init__(
        self,
        *,
        scorer: Scorer | None = None,
        alpha: float = ALPHA,
        reward: Any = None,
        **settings: Any,
    ) -> None:
        chosen = PublishedPCA(quantiser=CpSGD()) if scorer is None else scorer
        rules = RoundRules(chosen, "score", alpha, self._rule, None, reward)
        # It looks at nothing but the updates.
        super().__init__(rules=rules, **{"older": 1, **settings})


class MedPCA(FedPCA):
    """Med-PCA as published: as `FedPCA`, with the weighted median of each parameter."""

    _rule = "median"


def _fedavg(settings: dict[str, Any]) -> FedAvg:
    """Return FedAvg whose metrics functions cannot stop a round."""
    inner = FedAvg(**settings)
    inner.train_metrics_aggr_fn = guarded(inner.train_metrics_aggr_fn)
    inner.evaluate_metrics_aggr_fn = guarded(inner.evaluate_metrics_aggr_fn)
    return inner


def _checked(strategy: Strategy, fedavg: dict[str, Any]) -> Strategy:
    if not isinstance(strategy, Strategy):
        raise SettingError(
            f"strategy must be one of Flower's, as FedMerit(FedAdam()), got {strategy!r}; "
            "arguments of FedAvg are given by name"
        )
    if isinstance(strategy, FedMerit):
        raise SettingError(
            f"strategy must be one that combines replies, as FedMerit(FedAdam()), got a "
            f"{type(strategy).__name__}: one FedMerit judges a round"
        )
    plain = vars(FedAvg())
    given = [
        name for name, value in fedavg.items() if value is not None and value != plain.get(name)
    ]
    if given:
        raise SettingError(
            f"{', '.join(given)} must be given to {type(strategy).__name__} itself, "
            "which is inside, got them beside it"
        )
    return strategy


def _weigher(strategy: Any) -> Any:
    """Return the strategy that weighs replies: this one, or one that it wraps."""
    while not hasattr(strategy, "weighted_by_key") and hasattr(strategy, "strategy"):
        strategy = strategy.strategy
    return strategy


def _size_key(strategy: Any) -> str | None:
    """Return what a strategy weighs replies by, also where it wraps another; None if by nothing."""
    return getattr(_weigher(strategy), "weighted_by_key", None)


def _record_of(model: Mapping[str, Any]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(v, order="C")) for name, v in model.items()})


def _few(clients: Sequence[str]) -> str:
    """Return some names, and how many more there are."""
    more = len(clients) - _SHOWN
    return ", ".join(clients[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
