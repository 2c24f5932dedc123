"""Metrics of a round: what clients say of themselves, never trusted."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from logging import ERROR

from flwr.app import Message, MetricRecord, RecordDict
from flwr.common.logger import log

from fedmerit.errors import InvalidInputError
from fedmerit.flower.replies import claimed_size

Combine = Callable[[list[RecordDict], str], MetricRecord]


def consistent(contents: Iterable[RecordDict], size_key: str) -> list[RecordDict]:
    """Keep the contents whose metrics can be averaged: finite, and shaped like most others.

    A client that is left out here keeps its update: metrics are a courtesy, not the contribution.
    """
    shaped = [(content, _shape(content, size_key)) for content in contents]
    counts = Counter(shape for _, shape in shaped if shape is not None)
    if not counts:
        return []
    usual = max(counts, key=lambda shape: (counts[shape], shape))
    return [content for content, shape in shaped if shape == usual]


def readable(messages: Iterable[Message], size_key: str | None) -> list[Message]:
    """Keep the messages whose metrics can be averaged; all of them where nothing says by what."""
    listed = list(messages)
    if size_key is None:
        return listed
    kept = {id(content) for content in consistent((m.content for m in listed), size_key)}
    return [message for message in listed if id(message.content) in kept]


def combine(contents: Iterable[RecordDict], size_key: str, function: Combine) -> MetricRecord:
    """Average the clients' metrics; a failure there does not stop a round."""
    usable = consistent(contents, size_key)
    if not usable:
        return MetricRecord()
    try:
        return MetricRecord(dict(function(usable, size_key)))
    except Exception:  # it is somebody else's function, over what clients sent
        log(ERROR, "the clients' metrics could not be combined", exc_info=True)
        return MetricRecord()


def guarded(function: Combine) -> Combine:
    """Return a metrics function that cannot stop a round: it is over what clients sent."""

    def combined(contents: list[RecordDict], size_key: str) -> MetricRecord:
        return combine(contents, size_key, function)

    return combined


def scalars(metrics: MetricRecord | None, prefix: str = "") -> Mapping[str, float]:
    """Return the single numbers of a MetricRecord, for the ledger."""
    if metrics is None:
        return {}
    return {
        f"{prefix}{name}": float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float)
    }


def _shape(content: RecordDict, size_key: str) -> tuple[tuple[str, int], ...] | None:
    """Return the names and lengths of a reply's metrics; None where they cannot be averaged."""
    try:
        claimed_size(content, size_key)
    except InvalidInputError:
        return None
    (metrics,) = content.metric_records.values()
    shape = []
    for name, value in metrics.items():
        numbers = value if isinstance(value, list) else [value]
        if not all(math.isfinite(number) for number in numbers):
            return None
        shape.append((name, len(value) if isinstance(value, list) else -1))
    return tuple(sorted(shape))
