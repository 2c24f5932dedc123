"""What a client can check of its statement, without the ledger and anybody else's row."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedmerit.errors import LedgerError
from fedmerit.flags import Flag
from fedmerit.ledger.file.reading import parse_hash
from fedmerit.ledger.file.records import require_types
from fedmerit.ledger.file.schema import IDENTITY_SINCE
from fedmerit.ledger.proof.encoding import FIRST_PREVIOUS, encode_row
from fedmerit.ledger.proof.entries import Link, signed_bytes
from fedmerit.ledger.proof.heads import Anchor, Head, head_from
from fedmerit.ledger.proof.merkle import SALT_BYTES, leaf_hash, root_from
from fedmerit.ledger.proof.signing import ENTRY, HEAD, signature_holds
from fedmerit.ledger.proof.statement import STATED, header_hash
from fedmerit.records.columns import client_from, rejection_from


@dataclass(frozen=True)
class StatedRound:
    """A client in a round; `proven` is False where the round has no tree.

    Attributes
    ----------
    rejected : bool
        Whether this is a reply that was not used.
    score, weight, reward
        None where there is none.
    flag : Flag or None
    """

    run: int
    round: int
    recorded_at: int
    rejected: bool
    score: float | None
    weight: float | None
    reward: int | None
    flag: Flag | None
    proven: bool


@dataclass(frozen=True)
class StatementCheck:
    """What a statement says and how much of it is shown.

    Attributes
    ----------
    problem : str or None
        What is wrong; then nothing in the statement is to be believed.
    proven, open : tuple of str
        What was shown, and what was not, in words.
    """

    client: str
    ledger: str | None
    head: Head | None
    rounds: tuple[StatedRound, ...]
    problem: str | None = None
    proven: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem is None

    @property
    def total(self) -> int:
        """Rewards of all proven rows."""
        return sum(stated.reward or 0 for stated in self.rounds if stated.proven)

    @property
    def stated(self) -> int:
        """Rewards that are stated only."""
        return sum(stated.reward or 0 for stated in self.rounds if not stated.proven)


class _BadStatementError(Exception):
    pass


@dataclass
class _Checker:
    """Goes up from every row to the head."""

    statement: Mapping[str, Any]
    keys: Collection[bytes] | None
    anchors: Sequence[Anchor] | None
    hashes: list[bytes] = field(default_factory=list)
    entries: list[Mapping[str, Any]] = field(default_factory=list)
    run_keys: dict[int, str | None] = field(default_factory=dict)
    rounds: list[StatedRound] = field(default_factory=list)
    head: Head | None = None
    anchored: int = 0

    def check(self) -> None:
        if not isinstance(self.statement["client"], str):
            raise _BadStatementError("client must be text")
        ledger = self.statement["ledger"]
        self.ledger = None if ledger is None else bytes.fromhex(ledger)
        for name in ("entries", "rows"):
            if not isinstance(self.statement[name], list):
                raise _BadStatementError(f"{name} must be a list")
        self._walk()
        self._check_head()
        places: set[tuple[int, object, object]] = set()
        for row in self.statement["rows"]:
            self.rounds.append(self._row(row))
            place = (row["sequence"], row["table"], row["values"][0])
            if place in places:
                raise _BadStatementError(f"a row must be stated once, got {place} twice")
            places.add(place)
        if self.anchors is not None:
            self._check_anchors(self.anchors)

    def _walk(self) -> None:
        previous, runs, rounds = FIRST_PREVIOUS, 0, 0
        for at, entry in enumerate(self.statement["entries"], 1):
            if _whole(entry["sequence"]) != at:
                raise _BadStatementError(f"entry {at} is missing")
            if entry["kind"] not in ("run", "round"):
                raise _BadStatementError(f"entry {at} must be a run or a round")
            is_run = entry["kind"] == "run"
            runs, rounds = runs + is_run, rounds + (not is_run)
            link = Link(previous, at, _whole(entry["recorded_at"]), runs, rounds)
            if is_run:
                self.run_keys[_whole(entry["run"])] = entry["public_key"]
            if "version" not in entry:
                if self.entries and "version" in self.entries[-1]:
                    raise _BadStatementError(f"entry {at} must have a version, as those before it")
                previous = parse_hash(entry["hash"])
            elif _whole(entry["version"]) < IDENTITY_SINCE:
                raise _BadStatementError(f"entry {at} must be of version {IDENTITY_SINCE} or later")
            elif self.ledger is None:
                raise _BadStatementError("the ledger has no id")
            else:
                previous = header_hash(entry, link, self.ledger)
                self._check_signature(entry, link, previous)
            self.hashes.append(previous)
            self.entries.append(entry)

    def _check_signature(self, entry: Mapping[str, Any], link: Link, digest: bytes) -> None:
        """Check the signature of an entry that shows one; those with rows must, see `_row`."""
        key = self.run_keys.get(entry["run"])
        if "signature" not in entry or key is None or self.ledger is None:
            return
        message = signed_bytes(link, self.ledger, digest)
        signature = bytes.fromhex(entry["signature"])
        if not signature_holds(bytes.fromhex(key), signature, message, HEAD):
            raise _BadStatementError(f"the signature of entry {link.sequence} does not hold")

    def _check_head(self) -> None:
        if self.statement["head"] is None:
            if self.keys is not None:
                raise _BadStatementError("it has no signed head, so the key shows nothing")
            return
        self.head = head = head_from(self.statement["head"])
        ends = self.hashes[-1].hex() if self.hashes else None
        if head.hash != ends or head.sequence != len(self.hashes):
            raise _BadStatementError("the entries do not lead up to the head")
        if self.ledger is None or head.ledger != self.ledger.hex():
            raise _BadStatementError("the head is that of another ledger")
        problems = [head.problem(key) for key in self.keys or (None,)]
        if all(problem is not None for problem in problems):
            raise _BadStatementError(f"the head: {problems[0]}")

    def _row(self, row: Mapping[str, Any]) -> StatedRound:
        sequence, table, values = _whole(row["sequence"]), row["table"], row["values"]
        if table not in STATED or not 1 <= sequence <= len(self.entries):
            raise _BadStatementError(f"a row must be of an entry and a table, got {table!r}")
        entry = self.entries[sequence - 1]
        where = f"round {entry.get('round')} of run {entry['run']}"
        used = [column for column in STATED[table] if column.used_in(_whole(row["version"]))]
        if entry["kind"] == "run" or len(values) != 1 + len(used):
            raise _BadStatementError(f"{where}: a row must have {1 + len(used)} values")
        if values[1] != self.statement["client"]:
            raise _BadStatementError(f"{where}: the row is that of another client")
        for column, value in zip(used, values[1:], strict=True):
            require_types(column.name, (value,), column.sort.read)
        proven = "version" in entry
        if proven:
            self._check_row(row, entry, where)
        if self.keys is not None:
            self._check_origin(entry, where)
        named = dict(zip((column.name for column in used), values[1:], strict=True))
        return _stated(entry, table, named, proven=proven)

    def _check_row(self, row: Mapping[str, Any], entry: Mapping[str, Any], where: str) -> None:
        if row["version"] != entry["version"]:
            raise _BadStatementError(f"{where}: the row is of another version")
        salt = bytes.fromhex(row["salt"])
        if len(salt) != SALT_BYTES:  # a longer one could hold the beginning of another row
            raise _BadStatementError(
                f"{where}: a salt must have {SALT_BYTES} bytes, got {len(salt)}"
            )
        data = salt + encode_row((row["table"], *row["values"]))
        proof = [bytes.fromhex(step) for step in row["proof"]]
        found = root_from(leaf_hash(data), _whole(row["leaf"]), entry["leaves"], proof)
        if found is None or found.hex() != entry["root"]:
            raise _BadStatementError(f"{where}: the row is not in the round")

    def _check_origin(self, entry: Mapping[str, Any], where: str) -> None:
        """Require that an entry with rows is signed; since version 4 `_walk` has checked how."""
        key = self.run_keys.get(entry["run"])
        known = key is not None and bytes.fromhex(key) in (self.keys or ())
        if not known or key is None or "signature" not in entry:
            raise _BadStatementError(f"{where}: it is not signed with the given key")
        if "version" in entry:
            return
        signature, digest = bytes.fromhex(entry["signature"]), bytes.fromhex(entry["hash"])
        if not signature_holds(bytes.fromhex(key), signature, digest, ENTRY):
            raise _BadStatementError(f"{where}: the signature does not hold")

    def _check_anchors(self, anchors: Sequence[Anchor]) -> None:
        own = [a.head for a in anchors if self.ledger and a.head.ledger == self.ledger.hex()]
        if not own:
            raise _BadStatementError("the log of heads knows nothing of this ledger")
        for head in own:
            if head.sequence > len(self.hashes):
                continue
            if self.hashes[head.sequence - 1].hex() != head.hash:
                raise _BadStatementError(
                    f"entry {head.sequence} is not the one in the log of heads: this statement is "
                    "of another chain"
                )
            self.anchored = max(self.anchored, head.sequence)

    def levels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        proven, left_open = [], []
        shown = sum(stated.proven for stated in self.rounds)
        if shown:
            proven.append(f"content: {shown} rows are in the ledger that ends with the head")
        if shown < len(self.rounds):
            left_open.append(
                f"content: {len(self.rounds) - shown} rows are of before version 4, which has no "
                "proof for a single row"
            )
        if self.keys is None:
            left_open.append("origin: give the operator's public key (--public-key)")
        else:
            proven.append("origin: the head and every proven row are signed with the given key")
        if self.anchored:
            proven.append(
                f"one ledger for all: the chain has the heads of the log, up to entry "
                f"{self.anchored}"
            )
        if self.anchored < len(self.hashes):
            left_open.append(
                f"one ledger for all, behind entry {self.anchored}: compare it with a log of heads "
                "that goes as far (--anchor)"
            )
        left_open.append("that no other row speaks of the client")
        return tuple(proven), tuple(left_open)


def check_statement(
    statement: Mapping[str, Any],
    *,
    public_key: bytes | Collection[bytes] | None = None,
    anchors: Sequence[Anchor] | None = None,
) -> StatementCheck:
    """Check a statement without the ledger.

    Parameters
    ----------
    statement : mapping
        From `Ledger.statement`, or `read_json`.
    public_key : bytes or several, optional
        The operator's, known from elsewhere.
    anchors : sequence of Anchor, optional
        A log of heads: the statement's chain must agree with it.
    """
    keys = [public_key] if isinstance(public_key, bytes) else public_key
    if keys is not None and not keys:
        raise LedgerError("public_key must be a key or several, got none")
    checker = _Checker(statement, keys, anchors)
    problem = None
    try:
        checker.check()
    except (_BadStatementError, LedgerError) as error:
        problem = str(error)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        problem = f"it is not as a statement is: {error}"
    client, ledger = statement.get("client"), statement.get("ledger")
    proven, left_open = ((), ()) if problem else checker.levels()
    return StatementCheck(
        str(client),
        ledger if isinstance(ledger, str) else None,
        checker.head,
        () if problem else tuple(checker.rounds),
        problem,
        proven,
        left_open,
    )


def _whole(value: object) -> int:
    if type(value) is not int:
        raise _BadStatementError(f"a count must be an integer, got {value!r}")
    return value


def _stated(
    entry: Mapping[str, Any], table: str, named: Mapping[str, Any], *, proven: bool
) -> StatedRound:
    place = (_whole(entry["run"]), _whole(entry["round"]), _whole(entry["recorded_at"]))
    if table == "rejections":
        refused = rejection_from(named)
        flag = Flag(refused.kind, refused.reason)
        return StatedRound(*place, True, None, None, None, flag, proven)
    client = client_from(named)
    score, weight = named["score"], named["weight"]
    return StatedRound(*place, False, score, weight, client.reward, client.flag, proven)
