"""What an entry of the chain is hashed from, in every version.

Since version 4 an entry is a short header: it names the ledger, counts runs and rounds, and holds
the root of a tree over the rows of a round. So an entry can be shown, and signed, without its rows.
"""

from dataclasses import dataclass

from fedmerit.ledger.file.records import RoundRows
from fedmerit.ledger.file.schema import IDENTITY_SINCE
from fedmerit.ledger.proof.encoding import (
    ROUND_LABEL,
    RUN_LABEL,
    Value,
    encode_row,
    entry_hash,
    text_hash,
)
from fedmerit.ledger.proof.merkle import root_of, salted_leaves, salts_of

Fields = tuple[Value, ...]


@dataclass(frozen=True)
class Identity:
    """What tells a ledger from all others, and what hides its rows from each other."""

    ledger: bytes
    secret: bytes


@dataclass(frozen=True)
class Link:
    """The place of an entry in the chain; `runs` and `rounds` are counted with it."""

    previous: bytes
    sequence: int
    recorded_at: int
    runs: int
    rounds: int

    def counted(self, label: str, identity: Identity) -> Fields:
        """Return the fields that every entry since version 4 begins with."""
        return (
            label,
            self.previous,
            self.sequence,
            self.recorded_at,
            identity.ledger,
            self.runs,
            self.rounds,
        )


@dataclass(frozen=True)
class Run:
    """A run as it is recorded; `config` is JSON."""

    run: int
    software: str
    config: str
    public_key: bytes | None


def run_fields(link: Link, identity: Identity, run: Run) -> Fields:
    """Return what a run is hashed from."""
    return (
        *link.counted(RUN_LABEL.format(version=IDENTITY_SINCE), identity),
        run.run,
        run.software,
        text_hash(run.config),
        run.public_key,
        entry_hash((identity.secret,)),
    )


def round_fields(link: Link, identity: Identity, run: int, number: int, rows: RoundRows) -> Fields:
    """Return what a round is hashed from."""
    leaves = leaves_of(identity, link.sequence, rows)
    label = ROUND_LABEL.format(version=rows.version)
    return (*link.counted(label, identity), run, number, len(leaves), root_of(leaves))


def leaves_of(identity: Identity, sequence: int, rows: RoundRows) -> list[bytes]:
    """Return the hashes of the rows of a round, in the order of its tree."""
    encoded = rows.encoded()
    return salted_leaves(salts_of(identity.secret, sequence, len(encoded)), encoded)


def old_run_hash(link: Link, run: Run) -> bytes:
    """Return the hash of a run that was recorded before version 4."""
    fields = (RUN_LABEL.format(version=1), link.previous, link.sequence, link.recorded_at)
    return entry_hash((*fields, run.run, run.software, run.config, run.public_key))


def old_round_hash(link: Link, run: int, number: int, rows: RoundRows) -> bytes:
    """Return the hash of a round that was recorded before version 4."""
    label = ROUND_LABEL.format(version=rows.version)
    fields = (label, link.previous, link.sequence, link.recorded_at, run, number)
    return entry_hash(fields, rows.tables)


def signed_bytes(link: Link, ledger: bytes, digest: bytes) -> bytes:
    """Return what is signed since version 4: the head of a ledger that ends with this entry.

    It names ledger and counters beside the hash, so that a signed head can be checked, anchored and
    compared by whoever never sees the ledger.
    """
    return encode_row((ledger, link.sequence, link.runs, link.rounds, digest))
