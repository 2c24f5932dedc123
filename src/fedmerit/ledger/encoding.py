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

- a run (label ``fedmerit ledger 1 run``): ``run, software, config, public_key``;
- a round (label ``fedmerit ledger 3 round``): ``run, round``, then four lists of rows: of metrics
  ``[position, name, value]``, of scores ``[position, client, score, weight, p_value, epsilon,
  flagged, reward, num_examples, behaviour, kind, detail, twin, label]``, of rejected replies
  ``[position, client, reason, kind]``, with client the id as text, and of agreement no row or one,
  ``[pairs]``, the bytes of :mod:`fedmerit.agreement_map`.

Scores and rejected replies are the columns of :mod:`fedmerit.columns` that the label's number uses.
Rounds that earlier versions of fedmerit recorded keep the label they were hashed under:

- ``fedmerit ledger 2 round``: scores are ``[position, client, score, weight, p_value, epsilon,
  flagged, reason, reward, num_examples, behaviour]``, rejected replies ``[position, client,
  reason]``; there is one row of agreement;
- ``fedmerit ledger 1 round``: the same without the fourth list.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence

from fedmerit.errors import LedgerError

Value = None | int | float | str | bytes
Row = Sequence[Value]

FIRST_PREVIOUS = bytes(32)
RUN_LABEL = "fedmerit ledger 1 run"
ROUND_LABEL = "fedmerit ledger {version} round"

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
        return _INTEGER(b"I", value)
    if isinstance(value, str):
        text = value.encode()
        return _COUNT(b"T", len(text)) + text
    if isinstance(value, bytes):
        return _COUNT(b"B", len(value)) + value
    raise LedgerError(f"a ledger holds numbers, text and bytes, got {value!r}")


def encode_rows(rows: Sequence[Row]) -> bytes:
    """Return the canonical bytes of a list of lists of values."""
    parts = [_COUNT(b"L", len(rows))]
    for row in rows:
        parts.append(_COUNT(b"L", len(row)))
        parts.extend(map(encode_value, row))
    return b"".join(parts)


def entry_hash(fields: Iterable[Value], tables: Sequence[Sequence[Row]] = ()) -> bytes:
    """Return the SHA-256 of an entry: a list of plain `fields` followed by `tables` of rows."""
    encoded = [encode_value(field) for field in fields]
    digest = hashlib.sha256(_COUNT(b"L", len(encoded) + len(tables)))
    digest.update(b"".join(encoded))
    for table in tables:
        digest.update(encode_rows(table))
    return digest.digest()
