"""Replies are hostile input: whose they are, and what is wrong with them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    Metadata,
    MetricRecord,
    RecordDict,
)

from fedmerit.errors import Fault, InvalidInputError, Rule, UpdatesError
from fedmerit.flags import Kind
from fedmerit.flower.arrays import read_update
from fedmerit.server.layout import Layout
from fedmerit.server.replies import Replies, Rows, Sight, check_size, clean
from fedmerit.types import FloatArray, Rejection

NAME_KEY = "client-name"
_LONGEST_NAME = 60
NamesOf = Callable[[RecordDict], tuple[Any, ...]]
_Record = TypeVar("_Record", ArrayRecord, MetricRecord, ConfigRecord)


@dataclass(frozen=True)
class Answer:
    """What came from one node: a message to read, or the reason why there is none."""

    node: int
    message: Message | None = None
    reason: str = ""
    kind: Kind = Kind.REFUSED
    fault: Fault | None = None


class Asked:
    """Who was asked in one step of a round. The grid writes the ids when it sends the messages."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        # Only the metadata: a message holds on to the whole model.
        self._sent: list[Metadata] = [message.metadata for message in messages]

    @property
    def nodes(self) -> list[int]:
        """The nodes, sorted: rows must not depend on the order in which replies arrive."""
        return sorted({metadata.dst_node_id for metadata in self._sent})

    def answers(self, replies: Iterable[Message]) -> Iterator[Answer]:
        """Yield one answer per reply, as they are read, then one per node that sent none."""
        by_message = {m.message_id: m for m in self._sent if m.message_id}
        by_node = {metadata.dst_node_id: metadata for metadata in self._sent}
        seen: set[int] = set()
        for reply in replies:
            answer = self._answer(reply, by_message, by_node, seen)
            if answer.message is None:
                release(reply)
            yield answer
        for node in self.nodes:
            if node not in seen:
                yield Answer(node, reason="no reply before the timeout", kind=Kind.ABSENT)

    @staticmethod
    def _answer(
        reply: Message,
        by_message: dict[str, Metadata],
        by_node: dict[int, Metadata],
        seen: set[int],
    ) -> Answer:
        told = reply.metadata
        # Errors that the SuperLink makes on behalf of a node have the SuperLink as sender, so
        # the message they answer says whose they are.
        asked = by_message.get(told.reply_to_message_id)
        if asked is None and not by_message:
            asked = by_node.get(told.src_node_id)
        if asked is None:
            reason = "the reply is to a message of another round"
            return Answer(told.src_node_id, reason=reason, fault=Fault(Rule.ROUND))
        node = asked.dst_node_id
        if not reply.has_error() and told.src_node_id != node:
            reason = f"the reply is to a message to node {node}"
            return Answer(told.src_node_id, reason=reason, fault=Fault(Rule.SENDER, (node,)))
        if node in seen:
            reason = "a second reply in the same round"
            return Answer(node, reason=reason, fault=Fault(Rule.ONCE))
        seen.add(node)
        if reply.has_error():
            return Answer(node, reason=_error_text(reply), kind=Kind.ABSENT)
        if told.message_type != asked.message_type:
            got = told.message_type[:40]
            reason = f"the reply must be of type {asked.message_type}, got {got!r}"
            return Answer(node, reason=reason, fault=Fault(Rule.FORM, (got,)))
        return Answer(node, reply)


@dataclass(frozen=True)
class ReadReplies:
    """A round's replies as rows.

    Attributes
    ----------
    replies : Replies
    rejected : tuple of Rejection
    contents : mapping of client to RecordDict
        Metrics, without arrays: those are in the rows. Where messages are not kept.
    messages : mapping of node to Message
        The usable ones as they came, in the order in which they came, where they are kept.
    """

    replies: Replies
    rejected: tuple[Rejection, ...]
    contents: dict[str, RecordDict]
    messages: dict[int, Message]


def read_replies(
    asked: Asked,
    replies: Iterable[Message],
    sight: Sight,
    model: FloatArray,
    size_key: str | None,
    *,
    keep: bool,
    whole: bool,
) -> ReadReplies:
    """Read replies one by one into rows of updates: `whole`, or what scores look at.

    Each is released as soon as it is read, unless they are to be kept. Without a `size_key` replies
    need not claim a data size.
    """
    places = {node: row for row, node in enumerate(asked.nodes)}
    rows = Rows(sight, len(places), whole=whole)
    sizes: dict[int, float | None] = {}
    rejected: list[Rejection] = []
    contents: dict[str, RecordDict] = {}
    names: dict[str, str] = {}
    messages: dict[int, Message] = {}
    for answer in asked.answers(replies):
        client = str(answer.node)
        if answer.message is None:
            rejected.append(Rejection(client, answer.reason, answer.kind, answer.fault))
            continue
        content = answer.message.content
        try:
            size = None if size_key is None else claimed_size(content, size_key)
            records = list(of_kind(content, ArrayRecord).values())
            if len(records) != 1:
                raise UpdatesError(
                    f"a reply must have one ArrayRecord, got {len(records)}",
                    fault=Fault(Rule.FORM, ("ArrayRecord", len(records))),
                )
            read = partial(read_update, sight.layout, records[0], model)
            rows.read(places[answer.node], read)
        except InvalidInputError as error:
            rejected.append(Rejection(client, clean(str(error)), fault=error.fault))
        else:
            sizes[answer.node] = size
            messages[answer.node] = answer.message
            if not keep:
                contents[client] = RecordDict({**of_kind(content, MetricRecord)})
            if name := _claimed_name(content):
                names[client] = name
        if not keep or answer.node not in messages:
            release(answer.message)
    if keep:
        for what, names_of in (("records", _record_names), ("metrics", _metric_names)):
            for node in _unlike_others(messages, names_of):
                reason = f"{what} must have the names that most others have"
                fault = Fault(Rule.NAMES, (what,))
                rejected.append(Rejection(str(node), reason, fault=fault))
                release(messages.pop(node))
                del sizes[node]
    used = sorted(sizes)
    return ReadReplies(
        rows.replies(
            [places[node] for node in used],
            clients=[str(node) for node in used],
            num_examples=[sizes[node] for node in used],
            labels=names,
        ),
        tuple(rejected),
        contents,
        messages if keep else {},
    )


def _unlike_others(messages: Mapping[int, Message], names_of: NamesOf) -> list[int]:
    """Return nodes whose reply is named unlike most: strategies refuse a round for one."""
    shapes = {node: names_of(message.content) for node, message in messages.items()}
    counts = Counter(shapes.values())
    if len(counts) < 2:
        return []
    usual = max(counts, key=lambda shape: (counts[shape], shape))
    return [node for node, shape in shapes.items() if shape != usual]


def of_kind(content: RecordDict, kind: type[_Record]) -> dict[str, _Record]:
    """Return the records of one kind; Flower's own properties check every one of them anew."""
    return {name: record for name, record in content.items() if isinstance(record, kind)}


def _record_names(content: RecordDict) -> tuple[Any, ...]:
    return (*of_kind(content, ArrayRecord), *of_kind(content, MetricRecord))


def _metric_names(content: RecordDict) -> tuple[Any, ...]:
    return tuple(
        tuple(sorted((name, isinstance(value, list)) for name, value in record.items()))
        for record in of_kind(content, MetricRecord).values()
    )


def changed(
    message: Message,
    layout: Layout,
    model: FloatArray,
    keep: float | None,
    equal: str | None,
) -> Message:
    """Return a reply as the strategy inside is to see it: itself, unless something is changed.

    `keep` is the share of a too long update that is kept; `equal` names the metric of data sizes
    where these do not count.
    """
    if keep is None and equal is None:
        return message
    content = RecordDict(dict(message.content.items()))
    if keep is not None:
        ((name, sent),) = content.array_records.items()
        update = np.empty(layout.parameters, dtype=layout.dtype)
        read_update(layout, sent, model, update)
        shorter = layout.cut(model + update * np.asarray(keep, dtype=layout.dtype))
        content[name] = ArrayRecord({**sent, **{n: Array(v) for n, v in shorter.items()}})
    if equal is not None:
        ((name, metrics),) = content.metric_records.items()
        content[name] = MetricRecord({**metrics, equal: 1.0})
    other = copy(message)
    other.content = content
    return other


def release(reply: Message) -> None:
    """Take the content out of a reply: whoever collected the replies still holds the message."""
    if reply.has_content():
        reply.content = RecordDict()


def claimed_size(content: RecordDict, key: str) -> float:
    """Return how many examples a reply claims."""
    records = list(of_kind(content, MetricRecord).values())
    if len(records) != 1:
        raise InvalidInputError(
            f"a reply must have one MetricRecord, got {len(records)}",
            fault=Fault(Rule.FORM, ("MetricRecord", len(records))),
        )
    return check_size(key, records[0].get(key))


def _error_text(reply: Message) -> str:
    error = reply.error
    # A traceback says what happened in its last line.
    lines = [line for line in (error.reason or "").splitlines() if line.strip()]
    return clean(f"error {error.code}: {lines[-1] if lines else 'no reason given'}")


def _claimed_name(content: RecordDict) -> str:
    """Return how a client calls itself: a label for people, never its identity."""
    for record in of_kind(content, ConfigRecord).values():
        name = record.get(NAME_KEY)
        if isinstance(name, str):
            return clean(name, _LONGEST_NAME)
    return ""
