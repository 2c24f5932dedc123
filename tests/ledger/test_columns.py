"""What rounds are hashed from, known by heart: a change here is a new version of the ledger."""

import hashlib
import re
from dataclasses import fields

import pytest

from fedmerit.flags import Flag, Kind
from fedmerit.ledger import Ledger
from fedmerit.ledger.file.schema import MIGRATIONS
from fedmerit.ledger.proof import encoding
from fedmerit.records.columns import (
    CLIENT,
    REJECTION,
    VERSION,
    client_from,
    rejection_from,
    values_of,
)
from fedmerit.types import ClientRecord, Rejection, RoundRecord

FIRST = "client score weight p_value epsilon flagged reason reward num_examples behaviour"
THIRD = (
    "client score weight p_value epsilon flagged reward num_examples behaviour "
    "kind detail twin label"
)
SCORES = {1: FIRST, 2: FIRST, 3: THIRD, 4: THIRD, 5: THIRD + " value value_error judgement"}
REJECTIONS = {
    1: "client reason",
    2: "client reason",
    3: "client reason kind",
    4: "client reason kind",
    5: "client reason kind",
}


def names(columns, version):
    return [column.name for column in columns if column.used_in(version)]


def test_every_version_has_the_columns_it_was_hashed_from():
    assert VERSION == len(MIGRATIONS) == max(SCORES)
    assert max(column.since for column in CLIENT + REJECTION) <= VERSION
    for version in SCORES:
        assert names(CLIENT, version) == SCORES[version].split()
        assert names(REJECTION, version) == REJECTIONS[version].split()


@pytest.mark.parametrize("version", [1, 5])
def test_the_encoding_tells_the_fields_of_a_round(version):
    told = re.sub(r"\s+", " ", encoding.__doc__)
    for columns in (CLIENT, REJECTION):
        assert f"``[position, {', '.join(names(columns, version))}]``" in told


def test_no_field_of_a_record_is_forgotten():
    stored = {column.name for column in CLIENT}
    assert {field.name for field in fields(ClientRecord)} - {"flag"} <= stored
    assert {field.name for field in fields(Flag)} <= stored
    kept = {field.name for field in fields(Rejection)} - {"fault"}  # which decides at once
    assert kept == {column.name for column in REJECTION}


@pytest.mark.parametrize("kind", Kind)
def test_records_come_back_from_their_values(kind):
    for flag in (None, Flag(kind), Flag(kind, "d", "t")):
        client = ClientRecord("a", 0.5, 0.25, 0.1, 0.2, flag, 3, 4, "b", "c", 0.1, 0.02, "d")
        assert client_from(values_of(CLIENT, client)) == client
    rejection = Rejection("a", "b", kind)
    assert rejection_from(values_of(REJECTION, rejection)) == rejection


@pytest.mark.parametrize(
    ("flagged", "words", "flag"),
    [
        (1, "explained by public information (98%)", Flag(Kind.EXPLAINED, "98%")),
        (1, "near-copy of client c of client b", Flag(Kind.COPY, twin="c of client b")),
        (1, "no agreement", Flag(Kind.OTHER, "no agreement")),
        (1, "", Flag(Kind.OTHER)),
        (0, "", None),
        (0, "rejected: not finite", Flag(Kind.REFUSED, "not finite")),
        # Who was flagged stays flagged, and who was not is not, whatever the words are.
        (1, "undecided", Flag(Kind.OTHER, "undecided")),
        (0, "near-copy of client b", Flag(Kind.UNDECIDED, "near-copy of client b")),
    ],
)  # fmt: skip
def test_words_of_older_versions_become_flags(flagged, words, flag):
    values = {"client": "a", "score": None, "weight": 1.0, "flagged": flagged, "reason": words}
    client = client_from(values)
    assert client.flag == flag
    assert client.flagged == bool(flagged)


def test_a_round_is_hashed_from_its_columns_and_nothing_else(tmp_path):
    """By hand: the rows that the newest version makes of a record, under its label."""
    record = RoundRecord(
        1,
        (
            ClientRecord(
                "a", 0.5, 1.0, 0.01, 0.001, None, 7, 10, "honest", "Ward 7", 0.2, 0.1, "9f"
            ),
            ClientRecord("b", 0.0, 0.0, flag=Flag(Kind.COPY, "99%", "a")),
        ),
        (Rejection("c", "too slow", Kind.ABSENT),),
        {"auc": 0.75},
    )
    scores = [
        (0, "a", 0.5, 1.0, 0.01, 0.001, 0, 7, 10, "honest", *[None] * 3, "Ward 7", 0.2, 0.1, "9f"),
        (1, "b", 0.0, 0.0, None, None, 1, *[None] * 3, "copy", "99%", "a", *[None] * 4),
    ]
    rows = [
        ("metrics", 0, "auc", 0.75),
        *(("scores", *row) for row in scores),
        ("rejections", 0, "c", "too slow", "absent"),
    ]
    ledger_id, secret = b"i" * 32, b"s" * 32
    stream = hashlib.shake_256(b"fedmerit ledger salts\0" + secret + (2).to_bytes(8, "big"))
    salts = stream.digest(16 * 4)
    leaves = [
        sha256(b"\0" + salts[16 * at : 16 * at + 16] + encoding.encode_row(row))
        for at, row in enumerate(rows)
    ]
    root = sha256(b"\1" + sha256(b"\1" + leaves[0] + leaves[1])
                  + sha256(b"\1" + leaves[2] + leaves[3]))  # fmt: skip
    draws = iter([ledger_id, secret])
    path = tmp_path / "run.ledger"
    with Ledger.open(path, clock=lambda: 1.5, draw=lambda _: next(draws)) as ledger:
        ledger.start_run({}, "1")
        run = ("fedmerit ledger 4 run", bytes(32), 1, 1_500_000, ledger_id, 1, 0, 1, "1",
               sha256(b"{}"), None, encoding.entry_hash((secret,)))  # fmt: skip
        previous = encoding.entry_hash(run)
        assert ledger.head == previous.hex()
        ledger.append(record)
        fields = ("fedmerit ledger 5 round", previous, 2, 1_500_000, ledger_id, 1, 1, 1, 1, 4, root)
        assert ledger.head == encoding.entry_hash(fields).hex()


def sha256(data):
    return hashlib.sha256(data).digest()
