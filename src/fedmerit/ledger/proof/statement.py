"""What one client is shown, and can check without seeing anybody else's row.

A statement is JSON with the short headers of all entries, which link up to the signed head, and the
client's own rows, each with its salt and the hashes beside its way up to the root in the header of
its round. Whoever has the operator's public key can check that these rows are in the ledger that
ends with this head. It cannot show that no other row speaks of the client; the operator could leave
one out of the statement, not out of the ledger.

Rounds that were recorded before version 4 have no tree. Their rows are stated, not proven, and do
not count as pay. A newer round cannot pass for such a one: versions never go back, and the key
signs something else since version 4.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.ledger.file.reading import newest_head
from fedmerit.ledger.file.records import TABLES, RoundRows
from fedmerit.ledger.file.rows import Reader, every_row, identity_of
from fedmerit.ledger.file.schema import IDENTITY_SINCE
from fedmerit.ledger.proof.encoding import FIRST_PREVIOUS, ROUND_LABEL, RUN_LABEL, entry_hash
from fedmerit.ledger.proof.entries import Identity, Link, Run, leaves_of, run_fields
from fedmerit.ledger.proof.merkle import inclusion_proof, root_of, salts_of
from fedmerit.records.columns import CLIENT, REJECTION
from fedmerit.version import __version__

FORM = 1
STATED = {"scores": CLIENT, "rejections": REJECTION}
# Fields of headers, in the order they are hashed in, behind those that every entry begins with.
_RUN = ("run", "software", "config", "public_key", "secret")
_ROUND = ("run", "round", "leaves", "root")
_BYTES = frozenset({"config", "public_key", "secret", "root"})


def read_statement(connection: sqlite3.Connection, client: str) -> dict[str, Any]:
    """Put together what `client` is shown; the caller holds a snapshot.

    Raises
    ------
    LedgerError
        No row of the ledger speaks of the client.
    LedgerCorruptError
        An entry is not what was recorded.
    """
    reader, identity = Reader(connection), identity_of(connection)
    if client not in reader.clients.values():
        near = get_close_matches(client, reader.clients.values(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise LedgerError(f"client must be one of the ledger, got {client!r}{hint}")
    entries, rows = [], []
    previous, runs, rounds = FIRST_PREVIOUS, 0, 0
    listed = every_row(
        connection,
        "SELECT sequence, kind, recorded_at, hash, signature FROM entries ORDER BY sequence",
    )
    for sequence, kind, recorded_at, digest, signature in listed:
        runs, rounds = runs + (kind == "run"), rounds + (kind != "run")
        link = Link(previous, sequence, recorded_at, runs, rounds)
        entry: dict[str, Any] = {"sequence": sequence, "kind": kind, "recorded_at": recorded_at}
        own: list[dict[str, Any]] = []
        if kind == "run":
            entry |= _run_header(reader, link, identity)
        else:
            header, own = _round_header(reader, link, identity, client)
            entry |= header
        if "version" not in entry:
            entry["hash"] = digest.hex()
        elif identity is None or header_hash(entry, link, identity.ledger) != digest:
            raise LedgerCorruptError(
                f"entry {sequence} is not what was recorded: verify the ledger"
            )
        if signature is not None and (own or sequence == len(listed)):
            entry["signature"] = signature.hex()
        entries.append(entry)
        rows += own
        previous = digest
    head = newest_head(connection)
    return {
        "fedmerit statement": FORM,
        "software": __version__,
        "client": client,
        "ledger": None if identity is None else identity.ledger.hex(),
        "head": None if head is None else vars(head),
        "entries": entries,
        "rows": rows,
    }


def _run_header(reader: Reader, link: Link, identity: Identity | None) -> dict[str, Any]:
    version = "version" if reader.schema >= IDENTITY_SINCE else "NULL"
    run, software, config, key, version = reader.connection.execute(
        f"SELECT run, software, config, public_key, {version} FROM runs WHERE sequence = ?",
        (link.sequence,),
    ).fetchone()
    header = {"run": run, "public_key": None if key is None else key.hex()}
    if version is None or identity is None:
        return header
    fields = run_fields(link, identity, Run(run, software, config, key))
    return _plain(_RUN, fields) | {"version": version}


def _round_header(
    reader: Reader, link: Link, identity: Identity | None, client: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    run, number = reader.connection.execute(
        "SELECT run, round FROM rounds WHERE sequence = ?", (link.sequence,)
    ).fetchone()
    rows = reader.rows(link.sequence)
    own = [(at, name, row) for at, (name, row) in enumerate(_numbered(rows)) if row[1] == client]
    shown: list[dict[str, Any]] = [
        {"sequence": link.sequence, "table": name, "version": rows.version, "values": list(row)}
        for _, name, row in own
    ]
    header: dict[str, Any] = {"run": run, "round": number}
    if rows.version < IDENTITY_SINCE or identity is None:
        return header, shown
    leaves = leaves_of(identity, link.sequence, rows)
    salts = salts_of(identity.secret, link.sequence, len(leaves))
    for (at, _, _), row in zip(own, shown, strict=True):
        proof = inclusion_proof(leaves, at)
        row |= {"leaf": at, "salt": salts[at].hex(), "proof": [step.hex() for step in proof]}
    header |= {"leaves": len(leaves), "root": root_of(leaves).hex(), "version": rows.version}
    return header, shown


def _numbered(rows: RoundRows) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the rows of a round in the order of its tree; rows that name nobody as they are."""
    for name, table in zip(TABLES, rows.tables, strict=False):
        for row in table:
            yield name, row if name in STATED else (None, None)


def _plain(names: Sequence[str], fields: Sequence[Any]) -> dict[str, Any]:
    """Return the last fields of an entry by name, bytes in hexadecimal."""
    values = fields[len(fields) - len(names) :]
    return {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value in zip(names, values, strict=True)
    }


def header_hash(entry: Mapping[str, Any], link: Link, ledger: bytes) -> bytes:
    """Return the hash of an entry from its header."""
    is_run = entry["kind"] == "run"
    label = (RUN_LABEL if is_run else ROUND_LABEL).format(version=entry["version"])
    fields = [
        bytes.fromhex(entry[name]) if name in _BYTES and entry[name] is not None else entry[name]
        for name in (_RUN if is_run else _ROUND)
    ]
    return entry_hash((*link.counted(label, Identity(ledger, b"")), *fields))


def to_json(statement: Mapping[str, Any]) -> str:
    """Return a statement as text; numbers are written such that they are read back exactly."""
    try:
        return json.dumps(statement, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    except ValueError as error:
        raise LedgerCorruptError(f"a statement must hold finite numbers: {error}") from None


def read_json(content: bytes) -> Mapping[str, Any]:
    """Read a statement."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise LedgerCorruptError(f"a statement must be JSON: {error}") from None
    if not isinstance(found, dict) or found.get("fedmerit statement") != FORM:
        raise LedgerCorruptError(
            f"a statement must say 'fedmerit statement': {FORM}, which this version knows"
        )
    return found
