"""MeritAggregator: FLARE asks and sends as ever, fedmerit settles the rounds."""

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.abstract.model import ModelLearnable, ModelLearnableKey
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.app_common.app_constant import AppConstants

from fedmerit.errors import Fault, InvalidInputError, Rule, UpdatesError
from fedmerit.flags import Kind
from fedmerit.ledger import SigningKey
from fedmerit.nvflare.contribution import (
    Reply,
    answers,
    mean_metrics,
    named,
    read_model,
    read_shareable,
    sender,
)
from fedmerit.server import RoundRules, Server
from fedmerit.server.history import OLDER_UPDATES, REMEMBERED_CLIENTS
from fedmerit.server.opening import open_server
from fedmerit.server.replies import Rows, clean
from fedmerit.server.rules import check_run
from fedmerit.server.summary import lines_of, round_metrics
from fedmerit.types import Rejection, RoundRecord

PROPERTY = "fedmerit"
ANOTHER_ROUND = "the reply is to a task of another round"


class Settled(NamedTuple):
    """What a round makes of the model: itself or its change; the mean of reported metrics."""

    arrays: dict[str, NDArray[np.generic]]
    whole: bool
    metrics: dict[str, float] | None


class MeritAggregator(ModelAggregator):
    """Contributions without test data: who did not work is kept out, the others weigh as ever.

    For `ScatterAndGather`, in place of `InTimeAccumulateWeightedAggregator`, and for the `FedAvg`
    controller and its recipes, as their aggregator. Takes model updates (WEIGHT_DIFF) and models
    (WEIGHTS) as NumPy arrays, and returns what it got. Score, weight, p-value, flag and reward of
    every client are in the server's context under "fedmerit", for those who listen to
    AFTER_AGGREGATION; the property is private, so clients never get it.

    Parameters
    ----------
    rules : RoundRules, optional
        How a round is settled. A data size is what FLARE knows of it: the number of steps in the
        round.
    ledger : path, optional
        Ledger in which every round is recorded. The state of the server is kept beside it: a job
        that starts again with the same ledger continues with its evidence and round numbers.
    key : str, optional
        File of the private key, on the server, that signs what goes into the ledger.
    seed : int, optional
        Makes scores repeatable. A server that pays leaves it out.
    older, remembered : int
        How many global updates and how many clients' last reports the history keeps, of each the
        parameters that scores look at.
    record : callable, optional
        Gets a `RoundRecord` of every round.
    """

    def __init__(
        self,
        rules: RoundRules | None = None,
        ledger: str | None = None,
        key: str | None = None,
        seed: int | None = None,
        older: int = OLDER_UPDATES,
        remembered: int = REMEMBERED_CLIENTS,
        record: Callable[[RoundRecord], None] | None = None,
    ) -> None:
        super().__init__()
        # FLARE's job API writes a job from attributes that are named and valued as the arguments.
        self.rules, self.ledger, self.key, self.seed = rules, ledger, key, seed
        self.older, self.remembered, self.record = older, remembered, record
        self._rules = RoundRules.of(rules, {})
        check_run(seed, None, record, older, remembered)
        self._server: Server | None = None
        self._lock = Lock()  # replies come in threads of their own
        self._current = -1
        self._clear()

    def _clear(self) -> None:
        self._open_round = False
        self._seen: set[str] = set()
        self._replies: dict[str, Reply] = {}
        self._rejected: dict[Rejection, None] = {}

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Close the ledger when the run ends."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.END_RUN and self._server is not None:
            for line in lines_of(self._server.contributions()):
                self.log_info(fl_ctx, line)
            self._server.close()

    # --- what ScatterAndGather calls

    def accept(self, shareable: Shareable, fl_ctx: FLContext) -> bool:
        """Check one reply; what is wrong with it concerns that reply only."""
        with self._lock:
            server, client = self._begin(fl_ctx), "?"
            try:
                client = sender(shareable)
                if not answers(shareable, self._current):
                    raise InvalidInputError(ANOTHER_ROUND, fault=Fault(Rule.ROUND))
                self._enter(client)
                reply = read_shareable(shareable, server.layout, server.state.model)
                self._replies[client] = reply
            except InvalidInputError as error:
                self._refuse(client, error, fl_ctx)
                return False
        return True

    def aggregate(self, fl_ctx: FLContext) -> Shareable:
        """Settle the round. The result is empty where it was skipped: the model stays."""
        with self._lock:
            settled = self._settle(self._begin(fl_ctx), fl_ctx)
        kind = DataKind.WEIGHTS if settled.whole else DataKind.WEIGHT_DIFF
        return DXO(kind, settled.arrays).to_shareable()

    def reset(self, fl_ctx: FLContext) -> None:
        """Do nothing: a round begins with its number."""

    # --- what the FedAvg controller calls; it asks for replies to the open round only

    def accept_model(self, model: FLModel) -> None:
        """Check one reply; what is wrong with it concerns that reply only."""
        with self._lock:
            server, client = self._begin(self.fl_ctx), "?"
            try:
                client = named(model)
                self._enter(client)
                self._replies[client] = read_model(model, server.layout, server.state.model)
            except InvalidInputError as error:
                self._refuse(client, error, self.fl_ctx)

    def aggregate_model(self) -> FLModel:
        """Settle the round. The change is empty where it was skipped: the model stays."""
        with self._lock:
            settled = self._settle(self._begin(self.fl_ctx), self.fl_ctx)
        return FLModel(
            params_type=ParamsType.FULL if settled.whole else ParamsType.DIFF,
            params=settled.arrays,
            metrics=settled.metrics,
            current_round=self._current,
        )

    def reset_stats(self) -> None:
        """Do nothing: a round begins with its number."""

    # --- the round

    def _enter(self, client: str) -> None:
        """Take note that a client has answered, once a round."""
        if not self._open_round:
            raise InvalidInputError(ANOTHER_ROUND, fault=Fault(Rule.ROUND))
        if client in self._seen:
            raise InvalidInputError("a second reply in the same round", fault=Fault(Rule.ONCE))
        self._seen.add(client)

    def _refuse(self, client: str, error: InvalidInputError, fl_ctx: FLContext) -> None:
        refusal = Rejection(client, clean(str(error)), fault=error.fault)
        self.log_warning(fl_ctx, f"{refusal.client}: {refusal.reason}", fire_event=False)
        if self._open_round:
            self._rejected[refusal] = None

    def _begin(self, fl_ctx: FLContext) -> Server:
        """Take note of the model that the clients of a new round got."""
        current = fl_ctx.get_prop(AppConstants.CURRENT_ROUND)
        if self._server is None or current != self._current:
            arrays = _global_model(fl_ctx)
            if self._server is None:
                self._server = self._open(arrays, fl_ctx)
            self._server.publish(arrays)
            self._clear()
            self._current, self._open_round = current, True
        return self._server

    def _open(self, arrays: dict[str, NDArray[np.generic]], fl_ctx: FLContext) -> Server:
        try:
            return open_server(
                arrays,
                self._rules,
                ledger=None if self.ledger is None else Path(self.ledger),
                resume=True,
                key=None if self.key is None else SigningKey.load(self.key),
                seed=self.seed,
                record=self.record,
                about={"engine": "nvflare", "strategy": type(self).__name__},
                kept={"older": self.older, "remembered": self.remembered},
                say=lambda line: self.log_info(fl_ctx, line),
                warn=lambda line: self.log_warning(fl_ctx, line),
            )
        except Exception as error:  # FLARE would log any, and run without a ledger
            self.system_panic(f"the ledger cannot be used: {error}", fl_ctx)
            raise

    def _settle(self, server: Server, fl_ctx: FLContext) -> Settled:
        engine = fl_ctx.get_engine()
        for client in sorted(c.name for c in engine.get_clients()) if engine else ():
            if client not in self._seen:
                reason = "no result before the end of the round"
                self._rejected[Rejection(client, reason, Kind.ABSENT)] = None
        # Rows must not depend on the order in which replies arrive.
        clients = sorted(self._replies)
        sent = [self._replies[client] for client in clients]
        before = server.state.model
        # Where all sent models, models are averaged and returned: adding a difference may round.
        whole = bool(sent) and all(reply.whole for reply in sent)
        updates = {client: reply.update for client, reply in self._replies.items()}
        rows = Rows(server.sight, len(clients))
        for row, reply in enumerate(sent):
            rows.add(row, reply.update)
        replies = rows.replies(
            range(len(clients)),
            clients=clients,
            num_examples=[reply.steps for reply in sent],
            models=(lambda client: before + updates[client]) if whole else None,
            whole=updates.__getitem__,
        )
        server.judge_replies(replies, tuple(self._rejected))
        model = server.combine()
        after = server.state.model
        self._clear()
        record = server.write()
        assert record is not None, "the round was judged above"
        for client in record.clients:
            if client.flagged:
                self.log_warning(
                    fl_ctx, f"{client.client} flagged: {client.reason}", fire_event=False
                )
        found = round_metrics(record, clients=True)
        fl_ctx.set_prop(PROPERTY, found, private=True, sticky=True)
        if after is before:
            return Settled({}, whole=False, metrics=None)
        weights = {client.client: client.weight for client in record.clients}
        metrics = mean_metrics(
            (weights.get(client, 0.0), reply.metrics)
            for client, reply in zip(clients, sent, strict=True)
        )
        arrays = model if whole else server.layout.cut(after - before)
        return Settled(arrays, whole, metrics)


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
