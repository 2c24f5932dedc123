"""MeritAggregator: FLARE asks and sends as ever, fedmerit settles the rounds."""

from contextlib import AbstractContextManager, ExitStack
from dataclasses import fields
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.aggregator import Aggregator
from nvflare.app_common.abstract.model import ModelLearnable, ModelLearnableKey
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from fedmerit.server.layout import Layout
from fedmerit.adapters.recording import Record, recording
from fedmerit.server.replies import clean
from fedmerit.adapters.settling import settle_or_skip
from fedmerit.server.summary import RunSummary, round_metrics
from fedmerit.aggregators import NORM_BOUND
from fedmerit.errors import InvalidInputError, UpdatesError
from fedmerit.incentive.rewards import RewardRule
from fedmerit.ledger import SigningKey
from fedmerit.nvflare.contribution import answers, read_contribution, sender
from fedmerit.server.rounds import Replies, RoundRules, scoring_stream
from fedmerit.scorers import Merit
from fedmerit.server.history import OLDER_UPDATES, REMEMBERED_CLIENTS
from fedmerit.types import FloatArray, Rejection, RoundRecord, Scorer, freeze

META_KEY = "fedmerit"


class MeritAggregator(Aggregator):
    """Contributions without test data: the merit score, gated weights, and guards.

    For `ScatterAndGather`, in place of `InTimeAccumulateWeightedAggregator`. Takes model updates
    (WEIGHT_DIFF) and models (WEIGHTS) as NumPy arrays, and returns an update. Score, weight,
    p-value, flag and reward of every client are in the result's meta under "fedmerit", for those
    who listen to AFTER_AGGREGATION on the server; clients never get them.

    Parameters
    ----------
    scorer : Scorer, optional
        By default `Merit`.
    weighting, alpha, rule, norm_bound, reward
        As in `fedmerit.server.rounds.RoundRules`. A data size is what FLARE knows of it: the number of
        steps in the round.
    ledger : path, optional
        Ledger in which every round is recorded; new or continued.
    key : SigningKey, optional
        Signs what goes into the ledger.
    seed : int, optional
        Makes scores repeatable. A server that pays leaves it out.
    older, remembered : int
        How many global updates and how many clients' last reports the history keeps; each costs the
        memory of one model.
    record : callable, optional
        Gets a `RoundRecord` of every round.
    """

    def __init__(
        self,
        scorer: Scorer | None = None,
        weighting: str = "gated",
        alpha: float = 10.0,
        rule: str = "mean",
        norm_bound: float | None = NORM_BOUND,
        reward: RewardRule | None = None,
        ledger: str | None = None,
        key: SigningKey | None = None,
        seed: int | None = None,
        older: int = OLDER_UPDATES,
        remembered: int = REMEMBERED_CLIENTS,
        record: Record | None = None,
    ) -> None:
        super().__init__()
        # FLARE's job API writes a job from attributes that are named and valued as the arguments.
        self.scorer, self.weighting, self.alpha, self.rule = scorer, weighting, alpha, rule
        self.norm_bound, self.reward = norm_bound, reward
        self.ledger, self.key, self.seed = ledger, key, seed
        self.older, self.remembered, self.record = older, remembered, record
        chosen = Merit() if scorer is None else scorer
        self._rules = RoundRules(chosen, weighting, alpha, rule, norm_bound, reward)
        self._history = self._rules.fresh_history(older=older, remembered=remembered)
        self._layout: Layout | None = None
        self._lock = Lock()  # replies come in threads of their own
        self._closing = ExitStack()
        self._keep: Record | None = None
        self._summary = RunSummary()
        self._number = 0  # rounds so far; FLARE's own number may begin anywhere
        self._current = -1
        self._clear()

    def _clear(self) -> None:
        self._open = False
        self._seen: set[str] = set()
        self._updates: dict[str, FloatArray] = {}
        self._steps: dict[str, int | None] = {}
        self._rejected: dict[Rejection, None] = {}

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Open and close the ledger; keep what we found about clients from them."""
        if event_type == EventType.START_RUN:
            try:
                self._keep = self._closing.enter_context(self._recording())
            except Exception as error:  # FLARE would log any, and run without a ledger
                self.system_panic(f"the ledger cannot be used: {error}", fl_ctx)
        elif event_type == AppEventType.AFTER_SHAREABLE_TO_LEARNABLE:
            # What is in the model's meta is sent to all clients with it.
            model = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)
            model[ModelLearnableKey.META].pop(META_KEY, None)
        elif event_type == EventType.END_RUN:
            self._closing.close()
            for line in self._summary.lines({}):
                self.log_info(fl_ctx, line)

    def accept(self, shareable: Shareable, fl_ctx: FLContext) -> bool:
        """Check one reply; what is wrong with it concerns that reply only."""
        with self._lock:
            self._begin(fl_ctx)
            client = "?"
            try:
                client = sender(shareable)
                self._read(client, shareable)
            except InvalidInputError as error:
                refusal = Rejection(client, clean(str(error)))
                self.log_warning(fl_ctx, f"{refusal.client}: {refusal.reason}", fire_event=False)
                if self._open:
                    self._rejected[refusal] = None
                return False
        return True

    def _read(self, client: str, shareable: Shareable) -> None:
        if not self._open or not answers(shareable, self._current):
            raise InvalidInputError("the reply is to a task of another round")
        if client in self._seen:
            raise InvalidInputError("a second reply in the same round")
        self._seen.add(client)
        assert self._layout is not None
        model = self._history.models[-1]
        self._updates[client], self._steps[client] = read_contribution(
            shareable, self._layout, model
        )

    def aggregate(self, fl_ctx: FLContext) -> Shareable:
        """Settle the round. The result is empty where it was skipped: the model stays."""
        with self._lock:
            self._begin(fl_ctx)
            record, change = self._settle(fl_ctx)
        self._write(record, fl_ctx)
        return DXO(
            DataKind.WEIGHT_DIFF, change or {}, {META_KEY: round_metrics(record)}
        ).to_shareable()

    def _begin(self, fl_ctx: FLContext) -> None:
        """Take note of the model that the clients of a new round got."""
        current = fl_ctx.get_prop(AppConstants.CURRENT_ROUND)
        if current == self._current:
            return
        arrays = _global_model(fl_ctx)
        layout = Layout(arrays.items())
        model = freeze(layout.flatten(arrays.items()))
        if layout != self._layout:  # the first round, or a model of another kind
            rules, kept = self._rules, {"older": self.older, "remembered": self.remembered}
            self._history, self._layout = rules.fresh_history(**kept), layout
        self._history = self._history.published(model)
        self._clear()
        self._current, self._open = current, True
        self._number += 1

    def _settle(
        self, fl_ctx: FLContext
    ) -> tuple[RoundRecord, dict[str, NDArray[np.generic]] | None]:
        assert self._layout is not None
        engine = fl_ctx.get_engine()
        for client in sorted(c.name for c in engine.get_clients()) if engine else ():
            if client not in self._seen:
                self._rejected[Rejection(client, "no result before the end of the round")] = None
        # Rows must not depend on the order in which replies arrive.
        clients = sorted(self._updates)
        updates = np.empty((len(clients), self._layout.parameters), dtype=self._layout.dtype)
        for row, client in enumerate(clients):
            updates[row] = self._updates.pop(client)
        outcome = settle_or_skip(
            self._rules,
            self._history,
            Replies(clients, updates, [self._steps[client] for client in clients]),
            scoring_stream(self.seed, self._number),
            self._layout,
            tuple(self._rejected),
        )
        settled = outcome.settlement
        self._history = settled.history
        self._clear()
        record = RoundRecord(
            self._number, settled.clients, settled.rejected, agreement=settled.agreement
        )
        return record, outcome.change

    def _write(self, record: RoundRecord, fl_ctx: FLContext) -> None:
        for client in record.clients:
            if client.flagged:
                self.log_warning(
                    fl_ctx, f"{client.client} flagged: {client.reason}", fire_event=False
                )
        self._summary.add(record)
        for keep in (self._keep, self.record):
            if keep is not None:
                keep(record)

    def _recording(self) -> AbstractContextManager[Record | None]:
        settings = {
            "engine": "nvflare",
            "strategy": type(self).__name__,
            **{field.name: getattr(self._rules, field.name) for field in fields(self._rules)},
            "seed": self.seed,
        }
        return recording(None if self.ledger is None else Path(self.ledger), self.key, settings)


def _global_model(fl_ctx: FLContext) -> dict[str, NDArray[np.generic]]:
    model = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)
    if not isinstance(model, ModelLearnable) or model.is_empty():
        raise UpdatesError("the workflow must have a global model, got none")
    arrays = {}
    for name, values in model[ModelLearnableKey.WEIGHTS].items():
        if not isinstance(values, np.ndarray | np.generic):
            raise UpdatesError(
                f"the global model must be NumPy arrays, got {type(values).__name__} for {name}"
            )
        arrays[name] = np.asarray(values)
    return arrays
