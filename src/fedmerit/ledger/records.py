"""Between round records and the rows that are stored and hashed."""

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedmerit.agreement_map import clients_in
from fedmerit.errors import InvalidInputError, LedgerError
from fedmerit.ledger.encoding import AGREEMENT_ROUND_LABEL, ROUND_LABEL, Row, Value
from fedmerit.types import ClientRecord, Rejection, RoundRecord

_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class RoundRows:
    """The tables of one round, clients as text; agreement is one row of bytes or none."""

    metrics: Sequence[Row]
    scores: Sequence[Row]
    rejections: Sequence[Row]
    agreement: Sequence[Row]

    @classmethod
    def of(cls, record: RoundRecord) -> "RoundRows":
        """Make the rows of a record exactly as SQLite will return them."""
        return cls(
            metrics=[
                (position, text("metric", name), real(f"metric {name}", value))
                for position, (name, value) in enumerate(record.metrics.items())
            ],
            scores=[_score_row(index, client) for index, client in enumerate(record.clients)],
            rejections=[
                (position, text("client", rejection.client), text("reason", rejection.reason))
                for position, rejection in enumerate(record.rejected)
            ],
            agreement=_agreement_rows(record),
        )

    @property
    def label(self) -> str:
        """What the round is hashed as: rounds without agreement are as they always were."""
        return AGREEMENT_ROUND_LABEL if self.agreement else ROUND_LABEL

    @property
    def tables(self) -> tuple[Sequence[Row], ...]:
        """The tables in the order they are hashed in."""
        first = (self.metrics, self.scores, self.rejections)
        return (*first, self.agreement) if self.agreement else first

    @property
    def clients(self) -> set[str]:
        """Every client id that occurs."""
        return {str(row[1]) for row in self.scores} | {str(row[1]) for row in self.rejections}

    def record(self, number: int) -> RoundRecord:
        """Make the record back; durations were never stored."""
        return RoundRecord(
            round=number,
            clients=tuple(_client(row) for row in self.scores),
            rejected=tuple(Rejection(row[1], row[2]) for row in _any(self.rejections)),
            metrics={name: _number(value) for _, name, value in _any(self.metrics)},
            agreement=next((row[0] for row in _any(self.agreement)), b""),
        )


def text(name: str, value: object) -> str:
    """Check text: anything that UTF-8 can write."""
    if not isinstance(value, str):
        raise LedgerError(f"{name} must be text, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise LedgerError(f"{name} must be valid Unicode, got {value!r}") from None
    return str.__str__(value)  # a plain str also of a subclass such as numpy's


def integer(name: str, value: object) -> int:
    """Check an integer of at most 64 bits, which is what SQLite holds."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise LedgerError(f"{name} must be an integer, got {value!r}") from None
    if not _MIN_INTEGER <= number <= _MAX_INTEGER:
        raise LedgerError(f"{name} must fit in 64 bits, got {number}")
    return int(number)


def real(name: str, value: object) -> float | None:
    """Check a real number; "not a number" is stored as nothing, and minus zero as zero."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise LedgerError(f"{name} must be a number, got {value!r}") from None
    return None if math.isnan(number) else number + 0.0


def _agreement_rows(record: RoundRecord) -> list[Row]:
    packed = record.agreement
    if not isinstance(packed, bytes):
        raise LedgerError(f"agreement must be bytes, got {type(packed).__name__}")
    try:
        clients = clients_in(packed)
    except InvalidInputError as error:
        raise LedgerError(str(error)) from error
    if clients > len(record.clients):
        raise LedgerError(
            f"agreement must be of the {len(record.clients)} clients of the round, got {clients}"
        )
    return [(packed,)] if packed else []


def _score_row(position: int, client: ClientRecord) -> Row:
    return (
        position,
        text("client", client.client),
        real("score", client.score),
        real("weight", client.weight),
        None if client.p_value is None else real("p_value", client.p_value),
        None if client.epsilon is None else real("epsilon", client.epsilon),
        1 if client.flagged else 0,
        text("reason", client.reason),
        None if client.reward is None else integer("reward", client.reward),
        None if client.num_examples is None else integer("num_examples", client.num_examples),
        None if client.behaviour is None else text("behaviour", client.behaviour),
    )


def _client(row: Row) -> ClientRecord:
    _, client, score, weight, p_value, epsilon, flagged, reason, reward, examples, behaviour = (
        _plain(row)
    )
    return ClientRecord(
        client=client,
        score=_number(score),
        weight=_number(weight),
        p_value=p_value,
        epsilon=epsilon,
        flagged=bool(flagged),
        reason=reason,
        reward=reward,
        num_examples=examples,
        behaviour=behaviour,
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _plain(row: Row) -> tuple[Any, ...]:
    return tuple(row)


def _any(rows: Iterable[Sequence[Value]]) -> Iterable[tuple[Any, ...]]:
    return map(tuple, rows)
