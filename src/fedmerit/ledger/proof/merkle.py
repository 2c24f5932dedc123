"""A tree of hashes over the rows of a round: one row can be shown without any other.

The tree is that of RFC 6962, section 2.1, with SHA-256: a leaf is hashed behind a zero byte, a node
behind a one, and a list is cut at the largest power of two below its length. The proof that a leaf
is under a root is the list of hashes beside the way up to it.

A row is hidden behind 16 random bytes, its salt, which only its own client is shown: without them,
whoever gets a proof could guess a neighbour's row and compare hashes.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice

SALT_BYTES = 16
_sha256 = hashlib.sha256


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf."""
    return _sha256(b"\x00" + data).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root over hashes of leaves; of nothing, the hash of nothing."""
    if not leaves:
        return _sha256(b"").digest()
    level = leaves
    while len(level) > 1:
        level = _above(level)
    return level[0]


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes beside the way from leaf `index` up to the root."""
    proof, level = [], leaves
    while len(level) > 1:
        beside = index ^ 1
        if beside < len(level):
            proof.append(level[beside])
        level, index = _above(level), index // 2
    return proof


def root_from(leaf: bytes, index: int, size: int, proof: Iterable[bytes]) -> bytes | None:
    """Return the root that a proof leads to from a leaf's hash; None if it is no proof of one."""
    steps = list(proof)
    if not 0 <= index < size or any(len(step) != len(leaf) for step in steps):
        return None
    path, last, found = iter(steps), size - 1, leaf
    while last > 0:
        if index % 2 or index < last:
            beside = next(path, None)
            if beside is None:
                return None
            pair = beside + found if index % 2 else found + beside
            found = _sha256(b"\x01" + pair).digest()
        index, last = index // 2, last // 2
    return found if next(path, None) is None else None


def salts_of(secret: bytes, sequence: int, count: int) -> list[bytes]:
    """Return what hides each row of entry `sequence`: parts of one stream of SHAKE-256."""
    seed = hashlib.shake_256(b"fedmerit ledger salts\x00" + secret + sequence.to_bytes(8, "big"))
    stream = seed.digest(SALT_BYTES * count)
    return [stream[at : at + SALT_BYTES] for at in range(0, len(stream), SALT_BYTES)]


def salted_leaves(salts: Sequence[bytes], rows: Sequence[bytes]) -> list[bytes]:
    """Return the hashes of rows behind their salts."""
    return [_sha256(b"\x00" + salt + row).digest() for salt, row in zip(salts, rows, strict=True)]


def _above(level: Sequence[bytes]) -> list[bytes]:
    """Return the nodes above a level; an odd one at the end moves up as it is."""
    nodes = [
        _sha256(b"\x01" + left + right).digest()
        for left, right in zip(islice(level, 0, None, 2), islice(level, 1, None, 2), strict=False)
    ]
    if len(level) % 2:
        nodes.append(level[-1])
    return nodes
