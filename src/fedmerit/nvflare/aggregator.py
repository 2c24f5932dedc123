"""MeritAggregator: FLARE asks and sends as ever, fedmerit settles the rounds."""

from collections.abc import Callable
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

from fedmerit.errors import InvalidInputError, UpdatesError
from fedmerit.flags import Kind
from fedmerit.ledger import SigningKey
from fedmerit.nvflare.contribution import answers, read_contribution, sender
from fedmerit.server import RoundRules, Server
from fedmerit.server.history import OLDER_UPDATES, REMEMBERED_CLIENTS
from fedmerit.server.opening import open_server
from fedmerit.server.replies import Replies, clean
from fedmerit.server.rules import check_run
from fedmerit.server.totals import lines_of, round_metrics
from fedmerit.types import FloatArray, Rejection, RoundRecord

META_KEY = "fedmerit"


class MeritAggregator(Aggregator):
    """Contributions without test data: who did not work is kept out, the others weigh as ever.

    For `ScatterAndGather`, in place of `InTimeAccumulateWeightedAggregator`. Takes model updates
    (WEIGHT_DIFF) and models (WEIGHTS) as NumPy arrays, and returns what it got. Score, weight,
    p-value, flag and reward of every client are in the result's meta under "fedmerit", for those
    who listen to AFTER_AGGREGATION on the server; clients never get them.

    Parameters
    ----------
    rules : RoundRules, optional
        How a round is settled. A data size is what FLARE knows of it: the number of steps in the
        round.
    ledger : path, optional
        Ledger in which every round is recorded. The state of the server is kept beside it: a job
        that starts again with the same ledger continues with its evidence and round numbers.
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
        rules: RoundRules | None = None,
        ledger: str | None = None,
        key: SigningKey | None = None,
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
        check_run(seed, key, record, older, remembered)
        self._server: Server | None = None
        self._lock = Lock()  # replies come in threads of their own
        self._current = -1
        self._clear()

    def _clear(self) -> None:
        self._open_round = False
        self._seen: set[str] = set()
        self._updates: dict[str, FloatArray] = {}
        self._models: set[str] = set()  # clients that sent a model
        self._steps: dict[str, int | None] = {}
        self._rejected: dict[Rejection, None] = {}

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Close the ledger; keep what we found about clients from them."""
        if event_type == AppEventType.AFTER_SHAREABLE_TO_LEARNABLE:
            # What is in the model's meta is sent to all clients with it.
            model = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)
            model[ModelLearnableKey.META].pop(META_KEY, None)
        elif event_type == EventType.END_RUN and self._server is not None:
            for line in lines_of(self._server.contributions()):
                self.log_info(fl_ctx, line)
            self._server.close()

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
                if self._open_round:
                    self._rejected[refusal] = None
                return False
        return True

    def _read(self, client: str, shareable: Shareable) -> None:
        if not self._open_round or not answers(shareable, self._current):
            raise InvalidInputError("the reply is to a task of another round")
        if client in self._seen:
            raise InvalidInputError("a second reply in the same round")
        self._seen.add(client)
        assert self._server is not None, "a round is open"
        self._updates[client], self._steps[client], model = read_contribution(
            shareable, self._server.layout, self._server.state.model
        )
        if model:
            self._models.add(client)

    def aggregate(self, fl_ctx: FLContext) -> Shareable:
        """Settle the round. The result is empty where it was skipped: the model stays."""
        with self._lock:
            self._begin(fl_ctx)
            record, kind, arrays = self._settle(fl_ctx)
        for client in record.clients:
            if client.flagged:
                self.log_warning(
                    fl_ctx, f"{client.client} flagged: {client.reason}", fire_event=False
                )
        meta = {META_KEY: round_metrics(record, clients=True)}
        return DXO(kind, arrays, meta).to_shareable()

    def _begin(self, fl_ctx: FLContext) -> None:
        """Take note of the model that the clients of a new round got."""
        current = fl_ctx.get_prop(AppConstants.CURRENT_ROUND)
        if current == self._current:
            return
        arrays = _global_model(fl_ctx)
        if self._server is None:
            self._server = self._open(arrays, fl_ctx)
        self._server.publish(arrays)
        self._clear()
        self._current, self._open_round = current, True

    def _open(self, arrays: dict[str, NDArray[np.generic]], fl_ctx: FLContext) -> Server:
        try:
            return open_server(
                arrays,
                self._rules,
                ledger=None if self.ledger is None else Path(self.ledger),
                resume=True,
                key=self.key,
                seed=self.seed,
                record=self.record,
                about={"engine": "nvflare", "strategy": type(self).__name__},
                kept={"older": self.older, "remembered": self.remembered},
                say=lambda line: self.log_info(fl_ctx, line),
            )
        except Exception as error:  # FLARE would log any, and run without a ledger
            self.system_panic(f"the ledger cannot be used: {error}", fl_ctx)
            raise

    def _settle(
        self, fl_ctx: FLContext
    ) -> tuple[RoundRecord, DataKind, dict[str, NDArray[np.generic]]]:
        server = self._server
        assert server is not None, "a round is open"
        engine = fl_ctx.get_engine()
        for client in sorted(c.name for c in engine.get_clients()) if engine else ():
            if client not in self._seen:
                reason = "no result before the end of the round"
                self._rejected[Rejection(client, reason, Kind.ABSENT)] = None
        # Rows must not depend on the order in which replies arrive.
        clients = sorted(self._updates)
        updates = np.empty((len(clients), server.layout.parameters), dtype=server.layout.dtype)
        for row, client in enumerate(clients):
            updates[row] = self._updates.pop(client)
        before = server.state.model
        # Where all sent models, models are averaged and returned: adding a difference may round.
        whole = bool(clients) and self._models.issuperset(clients)
        rows = dict(zip(clients, updates, strict=True))
        replies = Replies(
            clients,
            updates,
            [self._steps[client] for client in clients],
            models=(lambda client: before + rows[client]) if whole else None,
        )
        server.judge_replies(replies, tuple(self._rejected))
        model = server.combine()
        after = server.state.model
        self._clear()
        record = server.write()
        assert record is not None, "the round was judged above"
        if after is before:
            return record, DataKind.WEIGHT_DIFF, {}
        if whole:
            return record, DataKind.WEIGHTS, model
        return record, DataKind.WEIGHT_DIFF, server.layout.cut(after - before)


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
