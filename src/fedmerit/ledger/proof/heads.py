"""Heads: the state of a ledger in one line, signed, to be kept where the ledger is not.

A ledger that was cut, emptied or swapped for another is a valid ledger; only somebody who remembers
an earlier head can tell. A log of heads remembers: a text file with one JSON object per line, each
with the SHA-256 of the line before it. It may be a file that the operator keeps elsewhere, a file
that everybody can read, or the log of a witness, who signs every line with a key of its own.

Whoever keeps a log sees heads only, never a row. It refuses a head that goes back behind one that
it has seen of the same ledger, and a second head for the same number of entries. Two chains that
were continued from one backup are told apart where the ledger is at hand: every head of the log
must be in its chain (`require_continued`). A witness who is sent a bare head cannot tell that a
longer one is of another chain; whoever verifies either chain with its log can. Once a head was
signed, those behind it must be signed with the same key, or another one that is named: nobody else
can put in a head that the ledger does not have, and so make it look cut.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedmerit.disk.files import names_to_disk, read_at_most
from fedmerit.disk.lock import WriterLock
from fedmerit.errors import LedgerBusyError, LedgerCorruptError, LedgerError
from fedmerit.ledger.proof.encoding import encode_row
from fedmerit.ledger.proof.signing import HEAD, WITNESS, SigningKey, signature_holds

_MOST_BYTES = 1 << 30
_MOST_LINE = 10_000  # bytes; a line has about 800
_FIRST = "0" * 64
_LINE_START = b'{"at": "'


@dataclass(frozen=True)
class Head:
    """The newest entry of a ledger.

    Attributes
    ----------
    ledger : str
        The ledger's id, as all bytes here in hexadecimal.
    sequence, runs, rounds : int
        How many entries, runs and rounds there are.
    hash : str
        Hash of the newest entry.
    public_key, signature : str or None
        Of the run that the entry belongs to; None where it is not signed.
    """

    ledger: str
    sequence: int
    runs: int
    rounds: int
    hash: str
    public_key: str | None = None
    signature: str | None = None

    @property
    def message(self) -> bytes:
        """What its signature is over."""
        return encode_row(
            (
                bytes.fromhex(self.ledger),
                self.sequence,
                self.runs,
                self.rounds,
                bytes.fromhex(self.hash),
            )
        )

    def problem(self, public_key: bytes | None = None) -> str | None:
        """Say why the head is not to be trusted: by its own key, or by the one given."""
        if public_key is not None and self.public_key != public_key.hex():
            return "it is not signed with the given key"
        if self.public_key is None:
            return None
        signature = bytes.fromhex(self.signature or "")
        if not signature_holds(bytes.fromhex(self.public_key), signature, self.message, HEAD):
            return "the signature does not hold"
        return None


@dataclass(frozen=True)
class Anchor:
    """A head in a log: when it was seen, and by which witness, if it was signed."""

    head: Head
    at: str
    previous: str
    witness: str | None = None
    witness_signature: str | None = None

    @property
    def message(self) -> bytes:
        """What the witness signs."""
        return encode_row((self.previous, self.at)) + self.head.message


def head_from(values: object) -> Head:
    """Read a head from what JSON holds of it."""
    fields = _fields(Head, values, "a head")
    for name in ("ledger", "hash"):
        _require_hex(name, fields[name], 64)
    for name, digits in (("public_key", 64), ("signature", 128)):
        if fields[name] is not None:
            _require_hex(name, fields[name], digits)
    for name in ("sequence", "runs", "rounds"):
        if type(fields[name]) is not int or not 0 <= fields[name] < 2**63:
            raise LedgerCorruptError(f"{name} of a head must be a count, got {fields[name]!r}")
    entries = fields["runs"] + fields["rounds"]
    if not entries or entries != fields["sequence"]:
        raise LedgerCorruptError(
            f"a head must count as many entries as runs and rounds, and some, got "
            f"{fields['sequence']} and {entries}"
        )
    return Head(**fields)


def read_head(path: Path) -> Head:
    """Read a head that was written as JSON."""
    return head_from(_json(_read(path, _MOST_LINE), f"{path} must hold a head"))


def read_log(path: Path, witness: bytes | None = None) -> list[Anchor]:
    """Read a log of heads; every line must follow from the one before.

    `witness` is the public key that every line must be signed with.
    """
    anchors: list[Anchor] = []
    previous = _FIRST
    for number, line in enumerate(_lines(_read(path, _MOST_BYTES)), 1):
        try:
            if len(line) > _MOST_LINE:
                raise LedgerCorruptError(f"it must have at most {_MOST_LINE} bytes")
            fields = _fields(Anchor, _json(line, "it must be JSON"), "a line")
            anchor = Anchor(**fields | {"head": head_from(fields["head"])})
            _check_line(anchor, previous, witness)
        except LedgerError as error:
            raise LedgerCorruptError(f"line {number} of {path}: {error}") from None
        anchors.append(anchor)
        previous = hashlib.sha256(line).hexdigest()
    return anchors


def append_head(
    path: Path,
    head: Head,
    *,
    key: SigningKey | None = None,
    public_key: Collection[bytes] | None = None,
    chain: Callable[[int], str | None] | None = None,
    clock: Callable[[], float] = time.time,
) -> Anchor:
    """Add a head to the log at `path` and return its line; one that is there already is returned.

    `key` is that of a witness, and `public_key` are keys that may sign heads of the ledger beside
    the one that signed the newest. `chain` gives the hash of each entry, where the ledger is at
    hand.

    Raises
    ------
    LedgerCorruptError
        The head goes back behind one of the same ledger, is another one for as many entries, is
        not signed as it must be, or is of a chain that does not have what the log has.
    """
    problem = head.problem()
    if problem is not None:
        raise LedgerCorruptError(f"the head: {problem}")
    lock = WriterLock(path, busy=LedgerBusyError, failed=LedgerError)
    try:
        known = read_log(path, None if key is None else key.public_key)
        seen = next((anchor for anchor in known if anchor.head == head), None)
        if seen is None:
            _require_growth(known, head)
        if chain is not None:
            require_continued([a for a in known if a.head.ledger == head.ledger], chain)
        if seen is not None:
            return seen
        _require_key(known, head, public_key or ())
        content = path.read_bytes()
        lines = _lines(content)
        previous = hashlib.sha256(lines[-1]).hexdigest() if lines else _FIRST
        at = datetime.fromtimestamp(clock(), UTC).isoformat(timespec="seconds")
        anchor = Anchor(head, at, previous)
        if key is not None:
            signature = key.sign(anchor.message, WITNESS)
            anchor = Anchor(head, at, previous, key.public_key.hex(), signature.hex())
        # A line without an end was being written when a machine died: nobody was told of it.
        whole = sum(len(line) + 1 for line in lines)
        torn = content[whole:]
        if not (torn.startswith(_LINE_START) or _LINE_START.startswith(torn)):
            raise LedgerError(f"{path} must be a log of heads, got another file")
        with path.open("r+b") as file:
            file.truncate(whole)
            file.seek(whole)
            file.write(to_json(anchor).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if not lines:
            names_to_disk(path.parent)
        return anchor
    except OSError as error:
        raise LedgerError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        lock.release()


def to_json(value: Head | Anchor) -> str:
    """Return a head or a line of a log as JSON."""
    plain = vars(value) | ({"head": vars(value.head)} if isinstance(value, Anchor) else {})
    return json.dumps(plain, sort_keys=True)


def require_continued(own: Sequence[Anchor], chain: Callable[[int], str | None]) -> None:
    """Refuse a chain that does not have every head of its log.

    Parameters
    ----------
    own : sequence of Anchor
        Of this ledger.
    chain : callable
        The hash of the entry at a place of the chain, None where there is no such entry.
    """
    for anchor in own:
        if chain(anchor.head.sequence) != anchor.head.hash:
            raise LedgerCorruptError(
                f"a ledger must go on from its anchors, {anchor.head.sequence} entries on "
                f"{anchor.at}, got another or a shorter chain: this is an older copy, or a second "
                "one that was continued"
            )


def _require_growth(known: Sequence[Anchor], head: Head) -> None:
    for anchor in known:
        seen = anchor.head
        if seen.ledger != head.ledger or seen.sequence < head.sequence:
            continue
        if seen.sequence == head.sequence and seen.hash == head.hash:
            continue
        raise LedgerCorruptError(
            f"heads of a ledger must go on from the last one seen, {seen.sequence} entries ending "
            f"in {seen.hash} on {anchor.at}, got {head.sequence} entries ending in {head.hash}: "
            "the ledger was cut, or two chains were continued from one copy"
        )


def _require_key(known: Sequence[Anchor], head: Head, named: Collection[bytes]) -> None:
    signed = [a.head.public_key for a in known if a.head.ledger == head.ledger]
    newest = signed[-1] if signed else None
    if newest is None or head.public_key == newest:
        return
    if head.public_key is None or bytes.fromhex(head.public_key) not in named:
        raise LedgerCorruptError(
            f"heads of a ledger must go on being signed with {newest}, or with a key that you name "
            f"(--public-key), got {head.public_key or 'none'}"
        )


def _check_line(anchor: Anchor, previous: str, witness: bytes | None) -> None:
    if anchor.previous != previous:
        raise LedgerCorruptError("it does not follow from the line before: the log was changed")
    if witness is not None and anchor.witness != witness.hex():
        raise LedgerCorruptError("it is not signed with the given witness key")
    if anchor.witness is not None:
        _require_hex("witness", anchor.witness, 64)
        _require_hex("witness_signature", anchor.witness_signature, 128)
        key, signature = (
            bytes.fromhex(anchor.witness),
            bytes.fromhex(anchor.witness_signature or ""),
        )
        if not signature_holds(key, signature, anchor.message, WITNESS):
            raise LedgerCorruptError("the signature of the witness does not hold")


def _fields(kind: type[Head] | type[Anchor], values: object, what: str) -> dict[str, Any]:
    names = set(kind.__dataclass_fields__)
    if not isinstance(values, Mapping) or set(values) != names:
        raise LedgerCorruptError(f"{what} must have {', '.join(sorted(names))}, got other fields")
    for name in ("at", "previous"):
        if name in names and not isinstance(values[name], str):
            raise LedgerCorruptError(f"{name} must be text, got {values[name]!r}")
    return dict(values)


def _require_hex(name: str, value: object, digits: int) -> None:
    known = isinstance(value, str) and len(value) == digits and value.isascii()
    if not known or not all(char in "0123456789abcdef" for char in str(value)):
        raise LedgerCorruptError(f"{name} must be {digits} hexadecimal digits, got {value!r}")


def _lines(content: bytes) -> list[bytes]:
    return content.split(b"\n")[:-1]


def _read(path: Path, most: int) -> bytes:
    try:
        return read_at_most(path, most)
    except (OSError, ValueError) as error:
        raise LedgerError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error


def _json(content: bytes, rule: str) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise LedgerCorruptError(f"{rule}: {error}") from None
