"""FedMerit, FedPCA and MedPCA: Flower's FedAvg, with the combining done by fedmerit."""

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from logging import INFO, WARNING
from os import PathLike
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from fedmerit.server.layout import Layout
from fedmerit.adapters.recording import Record, recording
from fedmerit.adapters.settling import settle_or_skip
from fedmerit.server.summary import RunSummary, round_metrics
from fedmerit.aggregators import NORM_BOUND
from fedmerit.flower.arrays import named
from fedmerit.flower.metrics import combine, readable, scalars
from fedmerit.flower.replies import Asked, read_replies
from fedmerit.incentive.rewards import RewardRule
from fedmerit.ledger import SigningKey
from fedmerit.quantisers import CpSGD
from fedmerit.server.rounds import RoundRules, scoring_stream
from fedmerit.scorers import Merit, PublishedPCA
from fedmerit.server.history import OLDER_UPDATES, REMEMBERED_CLIENTS
from fedmerit.types import RoundRecord, Scorer, freeze

EvaluateFunction = Callable[[int, ArrayRecord], MetricRecord | None]


class _Settled(FedAvg):
    """FedAvg that asks as ever, and settles a round by `rules`. Use one of the subclasses.

    Parameters
    ----------
    *fedavg, **fedavg_settings
        Whatever `flwr.serverapp.strategy.FedAvg` takes.
    rules : RoundRules
        How a round is scored, weighed, combined and paid.
    record : callable, optional
        Gets a `RoundRecord` of every round.
    ledger : path, optional
        Ledger in which every round is recorded; new or continued.
    key : SigningKey, optional
        Signs what goes into the ledger.
    seed : int, optional
        Makes scores repeatable. A server that pays leaves it out.
    older, remembered : int
        How many global updates and how many clients' last reports the history keeps; each costs the
        memory of one model.
    """

    def __init__(
        self,
        *fedavg: Any,
        rules: RoundRules,
        record: Record | None = None,
        ledger: str | PathLike[str] | None = None,
        key: SigningKey | None = None,
        seed: int | None = None,
        older: int = OLDER_UPDATES,
        remembered: int = REMEMBERED_CLIENTS,
        **fedavg_settings: Any,
    ) -> None:
        super().__init__(*fedavg, **fedavg_settings)
        self.rules, self.seed = rules, seed
        self.record, self.key = record, key
        self.ledger = None if ledger is None else Path(ledger)
        self.labels: dict[str, str] = {}
        self._kept = {"older": older, "remembered": remembered}
        self._reset()

    def _reset(self) -> None:
        self._history = self.rules.fresh_history(**self._kept)
        self._layout: Layout | None = None
        self._arrays: ArrayRecord | None = None
        self._asked, self._asked_evaluate = Asked(), Asked()
        self._pending: RoundRecord | None = None
        self._evaluates = False
        self._keep: Record | None = None
        self._summary = RunSummary()

    def summary(self) -> None:
        """Log the settings."""
        log(INFO, "\t├──> Contributions:")
        for name, value in self._rule_settings().items():
            log(INFO, "\t│\t├── %s: %s", name, value)
        log(INFO, "\t│\t└── ledger: %s", self.ledger)
        super().summary()

    def _rule_settings(self) -> dict[str, object]:
        return {field.name: getattr(self.rules, field.name) for field in fields(self.rules)}

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
        """Run the federation as `FedAvg.start` does; record every round; sum up at the end."""
        self._reset()
        settings = {
            "engine": "flower",
            "strategy": type(self).__name__,
            **self._rule_settings(),
            "seed": self.seed,
        }
        self._evaluates = evaluate_fn is not None
        with recording(self.ledger, self.key, settings) as self._keep:
            try:
                result = super().start(
                    grid,
                    initial_arrays,
                    num_rounds,
                    timeout,
                    train_config,
                    evaluate_config,
                    None if evaluate_fn is None else self._recorded(evaluate_fn),
                )
            finally:
                self._write()
        if not result.arrays:
            result.arrays = initial_arrays  # every round was skipped: the model is as it was
        for line in self._summary.lines(self.labels):
            log(INFO, "\t%s", line)
        if self.ledger is not None:
            log(INFO, "next: fedmerit report %s -o report.html", self.ledger)
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask as FedAvg does; note who is asked, and that the model is public from here on."""
        self._write()
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self._asked = Asked(messages)
        if messages:
            layout = Layout(named(arrays))
            if layout != self._layout:  # the first round, or a model of another kind
                self._history = self.rules.fresh_history(**self._kept)
                self._layout = layout
            self._arrays = arrays
            self._history = self._history.published(freeze(self._layout.flatten(named(arrays))))
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Settle the round; what is wrong with a reply concerns that reply only."""
        if self._layout is None or self._arrays is None or not self._asked.nodes:
            return None, None
        model = self._history.models[-1]
        read = read_replies(self._asked, replies, self._layout, model, self.weighted_by_key)
        self._asked = Asked()
        self.labels |= read.names
        outcome = settle_or_skip(
            self.rules,
            self._history,
            read.replies,
            scoring_stream(self.seed, server_round),
            self._layout,
            read.rejected,
        )
        arrays, settled = None, outcome.settlement
        if outcome.model is not None:
            trained = {name: Array(values) for name, values in outcome.model.items()}
            arrays = ArrayRecord({**self._arrays, **trained})
        self._history = settled.history
        for refusal in settled.rejected:
            log(WARNING, "round %d, %s: %s", server_round, refusal.client, refusal.reason)
        for client in settled.clients:
            if client.flagged:
                log(WARNING, "round %d, %s flagged: %s", server_round, client.client, client.reason)
        used = {client.client for client in settled.clients}
        contents = [content for client, content in read.contents.items() if client in used]
        metrics = combine(contents, self.weighted_by_key, self.train_metrics_aggr_fn)
        self._pending = RoundRecord(
            server_round,
            settled.clients,
            settled.rejected,
            scalars(metrics, "train/"),
            agreement=settled.agreement,
        )
        return arrays, MetricRecord({**metrics, **round_metrics(self._pending)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask as FedAvg does; note who is asked."""
        messages = list(super().configure_evaluate(server_round, arrays, config, grid))
        self._asked_evaluate = Asked(messages)
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average what can be averaged; the round is recorded now if nothing follows."""
        answers = list(self._asked_evaluate.answers(replies))
        for answer in answers:
            if answer.message is None:
                log(WARNING, "evaluation %d, %d: %s", server_round, answer.node, answer.reason)
        messages = [answer.message for answer in answers if answer.message is not None]
        usable = readable(messages, self.weighted_by_key)
        metrics = super().aggregate_evaluate(server_round, usable) if usable else None
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

    def _note(self, metrics: Any) -> None:
        if self._pending is not None:
            self._pending = replace(self._pending, metrics={**self._pending.metrics, **metrics})

    def _write(self) -> None:
        """Record the round that is over; a server that dies before has lost its model as well."""
        if self._pending is None:
            return
        record, self._pending = self._pending, None
        self._summary.add(record)
        for keep in (self._keep, self.record):
            if keep is not None:
                keep(record)


class FedMerit(_Settled):
    """Contributions without test data: the merit score, gated weights, and guards.

    Takes what `flwr.serverapp.strategy.FedAvg` takes, and what `_Settled` adds: `record`, `ledger`,
    `key`, `seed`, `older`, `remembered`.

    Parameters
    ----------
    scorer : Scorer, optional
        By default `Merit`.
    weighting, alpha, rule, norm_bound, reward
        As in `fedmerit.server.rounds.RoundRules`.
    """

    def __init__(
        self,
        *fedavg: Any,
        scorer: Scorer | None = None,
        weighting: str = "gated",
        alpha: float = 10.0,
        rule: str = "mean",
        norm_bound: float | None = NORM_BOUND,
        reward: RewardRule | None = None,
        **settings: Any,
    ) -> None:
        scorer = Merit() if scorer is None else scorer
        rules = RoundRules(scorer, weighting, alpha, rule, norm_bound, reward)
        super().__init__(*fedavg, rules=rules, **settings)


class FedPCA(_Settled):
    """Fed-PCA as published: softmax of pairwise correlated agreement, weighted mean, no guards.

    Clients send floats, which the server quantises as the paper's clients do.
    """

    _rule = "mean"

    def __init__(
        self,
        *fedavg: Any,
        scorer: PublishedPCA | None = None,
        alpha: float = 10.0,
        reward: RewardRule | None = None,
        **settings: Any,
    ) -> None:
        scorer = PublishedPCA(quantiser=CpSGD()) if scorer is None else scorer
        rules = RoundRules(scorer, "score", alpha, self._rule, None, reward)
        # It looks at nothing but the updates.
        super().__init__(*fedavg, rules=rules, **{"older": 1, **settings})


class MedPCA(FedPCA):
    """Med-PCA as published: as `FedPCA`, with the weighted median of each parameter."""

    _rule = "median"
