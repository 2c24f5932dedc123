"""Candidates as messages of Flower's evaluate phase: clients see a model to evaluate, as always."""

from collections.abc import Iterable, Iterator, Sequence
from logging import INFO, WARNING

import numpy as np
from flwr.app import Array, ArrayRecord, Message, Metadata, MetricRecord, RecordDict
from flwr.common.logger import log

from fedmerit.panel import Heard
from fedmerit.server import Server
from fedmerit.server.replies import clean


class Hearing:
    """The questions of one evaluate phase beside those that are asked anyway.

    The message with the global model, which a strategy sends to whom it wants evaluated, is one of
    the questions: what users see of it stays what it was, and costs nothing more.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        # Only the metadata: a message holds on to the whole model.
        self._asked: list[tuple[Metadata, str]] = []
        self._extra: list[Metadata] = []
        self._answers: list[tuple[str, object]] = []

    def messages(self, usual: Sequence[Message]) -> Iterator[Message]:
        """Yield the questions beside the `usual` ones."""
        by_node = {str(message.metadata.dst_node_id): message for message in usual}
        for candidate in self._server.candidates(by_node):
            message = by_node[candidate.judge]
            if not candidate.current:
                message = _with_arrays(message, candidate.model)
                self._extra.append(message.metadata)
                yield message
            self._asked.append((message.metadata, candidate.key))

    def usual(self, replies: Iterable[Message]) -> Iterator[Message]:
        """Yield the replies that the strategy inside asked for; keep what judges answered."""
        keys = {told.message_id: (told.dst_node_id, key) for told, key in self._asked}
        extra = {told.message_id for told in self._extra}
        metric = self._server.rules.panel.metric if self._server.rules.panel else ""
        for reply in replies:
            told = reply.metadata
            node, key = keys.get(told.reply_to_message_id, (None, ""))
            if node is not None and not reply.has_error() and told.src_node_id == node:
                self._answers.append((key, _value(reply, metric)))
            if told.reply_to_message_id not in extra:
                yield reply

    def close(self, server_round: int) -> Heard:
        """Hand over what judges answered and say what came of it."""
        known = set(self._server.harmful())
        heard = self._server.hear(self._answers)
        for key, reason in heard.refused:
            log(WARNING, "panel %d, question %s: %s", server_round, key, clean(reason))
        if heard.missing:
            log(WARNING, "panel %d: %d questions without an answer", server_round, heard.missing)
        log(INFO, "panel %d: the round gained %+.4f", server_round, heard.gain)
        for client in heard.harmful:
            if client not in known:
                log(WARNING, "panel %d: %s harms the model", server_round, client)
        return heard


def _with_arrays(message: Message, model: dict[str, np.ndarray]) -> Message:
    """Return the same question about another model."""
    ((name, _),) = message.content.array_records.items()
    arrays = ArrayRecord({n: Array(np.asarray(value, order="C")) for n, value in model.items()})
    told = message.metadata
    return Message(
        RecordDict({**dict(message.content.items()), name: arrays}),
        dst_node_id=told.dst_node_id,
        message_type=told.message_type,
        ttl=told.ttl,
        group_id=told.group_id,
    )


def _value(reply: Message, metric: str) -> object:
    """Return what a reply says of a model; None where it does not."""
    for record in reply.content.metric_records.values():
        if isinstance(record, MetricRecord) and metric in record:
            return record[metric]
    return None
