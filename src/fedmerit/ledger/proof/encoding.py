"""Canonical bytes: one and only one way to write what a ledger entry says, so it can be hashed.

A value is one byte of tag and then:

=======  ======================  ================================================================
tag      value                   bytes that follow
=======  ======================  ================================================================
``N``    nothing (SQL NULL)      none
``I``    integer                 8 bytes, two's complement, big-endian
``F``    real number             8 bytes, IEEE 754 binary64, big-endian
``T``    text                    8 bytes length, big-endian; UTF-8, code points as they are
``B``    bytes                   8 bytes length, big-endian; the bytes
``L``    list                    8 bytes number of items, big-endian; the items
=======  ======================  ================================================================

Text is not normalised: two ids that look alike but differ in code points are two clients. Lengths
come first, so no text can imitate the end of a field. Minus zero is written as zero and "not a
number" as nothing, because SQLite stores them so.

An entry is the list ``[label, previous, sequence, recorded_at, ...]``, its hash the SHA-256 of the
list's bytes. `previous` is the hash of the entry before it, 32 zero bytes for the first. Then

- a run (label ``fedmerit ledger 4 run``): ``ledger, runs, rounds, run, software, config,
  public_key, secret``, with the ledger's id, how many runs and rounds the ledger holds with this
  entry, and the SHA-256 of the configuration's text and of the ledger's secret;
- a round (label ``fedmerit ledger 5 round``): ``ledger, runs, rounds, run, round, leaves, root``,
  with the number of leaves and the root of the tree of its rows
  (:mod:`fedmerit.ledger.proof.merkle`). Rows are ``[table, position, ...]``: of metrics
  ``[position, name, value]``, of scores
  ``[position, client, score, weight, p_value, epsilon, flagged, reward, num_examples, behaviour,
  kind, detail, twin, label, value, value_error, judgement]``, of rejections ``[position, client,
  reason, kind]``, with client the id as text, and of agreements no row or one, ``[pairs]``, the
  bytes of :mod:`fedmerit.records.agreement_map`.

Scores and rejected replies are the columns of :mod:`fedmerit.records.columns` that the label's
number uses. Entries that earlier versions of fedmerit recorded keep the label they were hashed
under:

- ``fedmerit ledger 4 round``: scores end with the label.

Those before have no tree; the rows stand in the entry:

- ``fedmerit ledger 1 run``: ``run, software, config, public_key``, the configuration as text;
- ``fedmerit ledger 3 round``: ``run, round``, then four lists of rows: of metrics, scores, rejected
  replies and agreement, as in version 4;
- ``fedmerit ledger 2 round``: scores are ``[position, client, score, weight, p_value, epsilon,
  flagged, reason, reward, num_examples, behaviour]``, rejected replies ``[position, client,
  reason]``; there is one row of agreement;
- ``fedmerit ledger 1 round``: the same without the fourth list.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedmerit.errors import LedgerError

Value = None | int | float | str | bytes
Row = Sequence[Value]

FIRST_PREVIOUS = bytes(32)
RUN_LABEL = "fedmerit ledger {version} run"
ROUND_LABEL = "fedmerit ledger {version} round"

_MANY = 16  # rows from which on columns are written at once
_INTEGER = struct.Struct(">cq").pack
_FLOAT = struct.Struct(">cd").pack
_COUNT = struct.Struct(">cQ").pack


def encode_value(value: Value) -> bytes:
    """Return the canonical bytes of one value."""
    kind = type(value)
    if kind is float:
        return _FLOAT(b"F", value)
    if value is None:
        return b"N"
    if kind is int:
        try:
            return _INTEGER(b"I", value)
        except struct.error:
            raise LedgerError(f"an integer must fit in 64 bits, got {value!r}") from None
    if isinstance(value, str):
        text = value.encode()
        return _COUNT(b"T", len(text)) + text
    if isinstance(value, bytes):
        return _COUNT(b"B", len(value)) + value
    raise LedgerError(f"a ledger holds numbers, text and bytes, got {value!r}")


def encode_row(row: Iterable[Value]) -> bytes:
    """Return the canonical bytes of a list of values."""
    parts = [encode_value(value) for value in row]
    return _COUNT(b"L", len(parts)) + b"".join(parts)


def encode_each(rows: Sequence[Row], prefix: Row = ()) -> list[bytes]:
    """Return the canonical bytes of every row behind a common `prefix` of values.

    Many rows of equal length are written column by column, which is some times faster.
    """
    if len(rows) < _MANY or len({len(row) for row in rows}) != 1:
        return [encode_row((*prefix, *row)) for row in rows]
    length = len(prefix) + len(rows[0])
    starts = [_COUNT(b"L", length) + b"".join(map(encode_value, prefix))] * len(rows)
    columns = [_encode_column(column) for column in zip(*rows, strict=True)]
    return [b"".join(parts) for parts in zip(starts, *columns, strict=True)]


def encode_rows(rows: Sequence[Row]) -> bytes:
    """Return the canonical bytes of a list of lists of values."""
    return _COUNT(b"L", len(rows)) + b"".join(encode_each(rows))


_NOTHING = type(None)
_NUMBERS = {float: (b"F", ">f8"), int: (b"I", ">i8")}


def _encode_column(values: Sequence[Any]) -> Sequence[bytes]:
    """Return the canonical bytes of each value; the types decide, so that nothing is converted."""
    kinds = set(map(type, values))
    (kind, *others) = kinds - {_NOTHING} or {_NOTHING}
    if kind is _NOTHING:
        return [b"N"] * len(values)
    if not others and kind is str:  # few different texts: each is written once
        texts = {value: encode_value(value) for value in set(values)}
        return [texts[value] for value in values]
    if others or kind not in _NUMBERS:
        return list(map(encode_value, values))
    if _NOTHING not in kinds:
        return _numbers(*_NUMBERS[kind], values)
    cells = _numbers(*_NUMBERS[kind], [0 if value is None else value for value in values])
    return [b"N" if value is None else cell for value, cell in zip(values, cells, strict=True)]


def _numbers(tag: bytes, form: str, values: Sequence[Any]) -> list[bytes]:
    cells = np.empty(len(values), dtype=[("tag", "S1"), ("value", form)])
    cells["tag"], cells["value"] = tag, values
    raw = cells.tobytes()
    return [raw[at : at + 9] for at in range(0, len(raw), 9)]


def entry_hash(fields: Iterable[Value], tables: Sequence[Sequence[Row]] = ()) -> bytes:
    """Return the SHA-256 of an entry: a list of plain `fields` followed by `tables` of rows."""
    encoded = [encode_value(field) for field in fields]
    digest = hashlib.sha256(_COUNT(b"L", len(encoded) + len(tables)))
    digest.update(b"".join(encoded))
    for table in tables:
        digest.update(encode_rows(table))
    return digest.digest()


def text_hash(text: str) -> bytes:
    """Return the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).digest()
