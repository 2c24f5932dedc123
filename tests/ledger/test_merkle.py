"""The tree of RFC 6962: its own test vectors, its definition, and what a proof shows."""

import hashlib

import numpy as np
import pytest

from fedmerit.ledger.proof.merkle import (
    inclusion_proof,
    leaf_hash,
    root_from,
    root_of,
    salted_leaves,
    salts_of,
)

# The inputs and roots that the reference implementations of certificate transparency test with.
INPUTS = [bytes.fromhex(text) for text in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
)]  # fmt: skip
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
# Leaf (from 1), size of the tree, and the way up.
PROOFS = [
    (1, 1, []),
    (1, 8, [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]),
    (6, 8, [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]),
    (3, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    (2, 5, [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ]),
]  # fmt: skip


def leaves(count):
    return [leaf_hash(data) for data in INPUTS[:count]]


@pytest.mark.parametrize("count", range(9))
def test_roots_are_those_of_the_standard(count):
    assert root_of(leaves(count)).hex() == ROOTS[count]


@pytest.mark.parametrize(("leaf", "size", "proof"), PROOFS)
def test_proofs_are_those_of_the_standard(leaf, size, proof):
    assert [step.hex() for step in inclusion_proof(leaves(size), leaf - 1)] == proof


def root_by_definition(data):
    """The definition in section 2.1, word by word."""
    if len(data) <= 1:
        return hashlib.sha256(b"\0" + data[0] if data else b"").digest()
    cut = 1 << (len(data) - 1).bit_length() - 1
    left, right = root_by_definition(data[:cut]), root_by_definition(data[cut:])
    return hashlib.sha256(b"\1" + left + right).digest()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 100, 129])
def test_every_leaf_is_shown_to_be_under_the_root_and_no_other(count):
    data = [bytes([at]) * (at % 3) + b"x" for at in range(count)]
    hashed = [leaf_hash(item) for item in data]
    root = root_of(hashed)
    assert root == root_by_definition(data)
    for at in range(count):
        proof = inclusion_proof(hashed, at)
        assert root_from(hashed[at], at, count, proof) == root
        assert root_from(leaf_hash(b"forged"), at, count, proof) != root
        assert root_from(hashed[at], at, count, [*proof, root]) is None
        if proof:
            assert root_from(hashed[at], at, count, proof[:-1]) is None
            assert root_from(hashed[at], at ^ 1, count, proof) != root
    assert root_from(root, count, count, []) is None
    assert root_from(root, -1, count, []) is None


def test_a_node_cannot_pass_as_a_leaf():
    hashed = leaves(2)
    assert leaf_hash(hashed[0] + hashed[1]) != root_of(hashed)


def test_salts_differ_from_row_to_row_and_round_to_round():
    secret = b"s" * 32
    salts = salts_of(secret, 1, 5)
    assert {len(salt) for salt in salts} == {16}
    assert len({*salts, *salts_of(secret, 2, 5), *salts_of(b"t" * 32, 1, 5)}) == 15
    assert salts_of(secret, 1, 3) == salts[:3]
    same = salted_leaves(salts, [b"row"] * 5)
    assert len(set(same)) == 5
    assert same[0] == leaf_hash(salts[0] + b"row")


def test_no_leaf_can_be_guessed_without_its_salt():
    rng = np.random.default_rng(0)
    rows = [rng.bytes(40) for _ in range(4)]
    hashed = salted_leaves(salts_of(b"s" * 32, 1, 4), rows)
    assert not {leaf_hash(row) for row in rows} & set(hashed)
