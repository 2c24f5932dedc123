"""Files that earlier versions wrote are read, verified, migrated and continued, bit for bit."""

import gzip
import shutil
import sqlite3
from pathlib import Path

import pytest

from fedmerit.errors import LedgerError
from fedmerit.flags import Flag, Kind
from fedmerit.ledger import Ledger, SigningKey
from fedmerit.ledger.export import export
from fedmerit.ledger.file import schema
from fedmerit.ledger.proof.encoding import FIRST_PREVIOUS, entry_hash
from fedmerit.records.columns import VERSION
from fedmerit.report import open_source
from fedmerit.types import ClientRecord, Rejection, RoundRecord
from tests.ledger.builders import make_record
from tests.ledger.test_verification import Forger, check

# A run of two rounds, the second with agreement, as the second version wrote it.
SECOND = Path(__file__).parent / "files" / "version2.ledger.gz"
SECOND_HEAD = "dadbcf6738a00fd94b84b56493bfacc9755dd4d32b60a6dad5852068e3c5822b"
SECOND_RECORDS = [
    RoundRecord(
        1,
        (
            ClientRecord("a", 0.5, 0.6, 0.01, 0.001, None, 600, 10, "honest"),
            ClientRecord("b", 0.0, 0.0, 0.9, None, Flag(Kind.EXPLAINED, "98%"), 0, 10, "stale"),
        ),
        (Rejection("c", "no reply before the timeout", Kind.REFUSED),),
        {"accuracy": 0.75},
    ),
    RoundRecord(
        2,
        (
            ClientRecord("a", 0.5, 0.5),
            ClientRecord("b", 0.4, 0.5, flag=Flag(Kind.COPY, twin="a")),
        ),
        agreement=b"F",
    ),
]
# A signed run of two rounds, as the third version wrote it.
THIRD = Path(__file__).parent / "files" / "version3.ledger.gz"
THIRD_HEAD = "4cbab1de24a320eb1365e2e58dd51f433b2c890317a84ad3d9fae7468d5430f5"
FIRST_HEAD = "eecc25b574ec85257f23ae8305e7355298817bff4ecfc1878652bebbd6bd0046"
FIRST_SCORES = [
    (0, "client 0", 0.01, 1 / 3, None, None, 0, "", None, None, None),
    (1, "client 1", 0.11, 1 / 3, 0.5, 0.001, 1, "no agreement", 100, 61, "honest"),
    (2, "client 2", 0.21000000000000002, 1 / 3, 0.5, 0.001, 0, "", 200, 62, "honest"),
]


def unpacked(stored: Path, folder: Path) -> Path:
    path = folder / "run.ledger"
    path.write_bytes(gzip.decompress(stored.read_bytes()))
    return path


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return unpacked(SECOND, tmp_path)


@pytest.fixture
def first(tmp_path: Path, monkeypatch) -> Path:
    """A file of the first version, put together by hand."""
    path = tmp_path / "first.ledger"
    connection = sqlite3.connect(path, isolation_level=None)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        schema.migrate(connection, "first")
    metrics = [(0, "accuracy", 0.9), (1, "loss", 1.3)]
    rejected = [(0, "client x", "NaN in update")]
    run = entry_hash(
        ("fedmerit ledger 1 run", FIRST_PREVIOUS, 1, 1_500_000, 1, "0.1.0", "{}", None)
    )
    head = entry_hash(
        ("fedmerit ledger 1 round", run, 2, 1_500_000, 1, 1), (metrics, FIRST_SCORES, rejected)
    )

    def insert(table: str, *rows: tuple) -> None:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    insert("entries", (1, "run", 1_500_000, run, None), (2, "round", 1_500_000, head, None))
    insert("runs", (1, 1, "0.1.0", "{}", None))
    insert("rounds", (2, 1, 1))
    insert("clients", *((n, f"client {name}") for n, name in enumerate("012x", 1)))
    insert("metrics", *((2, *row) for row in metrics))
    insert("scores", *((2, at, at + 1, *rest) for at, _, *rest in FIRST_SCORES))
    insert("rejections", (2, 0, 4, "NaN in update"))
    connection.close()
    return path


def version(path: Path) -> int:
    connection = sqlite3.connect(path)
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return found


def test_a_file_of_the_second_version_is_read_without_touching_it(second: Path) -> None:
    with Ledger.open(second, read_only=True) as ledger:
        found = ledger.verify(head=SECOND_HEAD)
        assert (found.problem, found.head, found.rounds) == (None, SECOND_HEAD, 2)
        assert list(ledger.rounds()) == SECOND_RECORDS
        assert [(s.client, s.flagged, s.rejected) for s in ledger.summaries()] == [
            ("a", 0, 0),
            ("b", 2, 0),
            ("c", 0, 1),
        ]
        assert export(ledger, second.with_name("out.csv"), "csv") == 2
    view = open_source(second)
    assert (list(view.records), view.chain.problem) == (SECOND_RECORDS, None)
    assert second.read_bytes() == gzip.decompress(SECOND.read_bytes())


def test_a_file_of_the_second_version_is_migrated_and_continued(second: Path) -> None:
    with Ledger.open(second) as ledger:
        assert ledger.verify().head == SECOND_HEAD
        assert list(ledger.rounds()) == SECOND_RECORDS
        ledger.resume_run(1)
        ledger.append(SECOND_RECORDS[1])  # a round that comes again is the same round
        assert ledger.head == SECOND_HEAD
        ledger.append(make_record(3, clients=4))
    assert version(second) == VERSION
    with Ledger.open(second, read_only=True) as ledger:
        assert list(ledger.rounds()) == [*SECOND_RECORDS, make_record(3, clients=4)]
        assert ledger.verify(head=SECOND_HEAD).rounds == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("scores SET reason = 'near-copy of client b'", "round 1 of run 1: the content is not"),
        ("scores SET reward = 601 WHERE reward = 600", "round 1 of run 1: the content is not"),
        # What the hash of an old round does not cover must be empty.
        ("scores SET kind = 'copy'", "round 1 of run 1: scores kind must be empty"),
        ("scores SET label = 'Ward 7' WHERE sequence = 3", "round 2 of run 1: scores label must"),
        ("rejections SET kind = 'absent'", "round 1 of run 1: rejections kind must be empty"),
        ("rounds SET version = 3", "round 1 of run 1: scores reason must be empty in a round of"),
        ("rounds SET version = 1", f"a round must be 3 to {VERSION} or nothing, got 1"),
    ],
)
def test_an_old_round_that_was_changed_after_the_migration_is_found(
    second: Path, change: str, problem: str
) -> None:
    Ledger.open(second).close()
    assert check(second, head=SECOND_HEAD).ok
    with Forger(second) as connection:
        connection.execute(f"UPDATE {change}")
    assert problem in str(check(second).problem)


def test_a_new_round_cannot_pass_as_an_old_one(second: Path) -> None:
    with Ledger.open(second) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(3))
    for change in ("rounds SET version = NULL", "scores SET reason = 'x'"):
        before = second.read_bytes()
        with Forger(second) as connection:
            connection.execute(f"UPDATE {change} WHERE sequence = 4")
        assert (check(second).round, check(second).ok) == (3, False)
        second.write_bytes(before)


def test_a_file_of_the_first_version_verifies_for_ever(first: Path) -> None:
    # The digest that the first version gave these rows.
    assert check(first, head=FIRST_HEAD).head == FIRST_HEAD
    with Ledger.open(first, read_only=True) as ledger:
        (record,) = ledger.rounds()
    assert record.clients[1].flag == Flag(Kind.OTHER, "no agreement")
    assert [client.flag for client in record.clients[::2]] == [None, None]
    with Ledger.open(first) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(2))
        assert list(ledger.rounds()) == [record, make_record(2)]
        assert ledger.verify(head=FIRST_HEAD).rounds == 2
    assert version(first) == VERSION


def test_an_old_file_that_claims_to_be_new_is_found(second: Path) -> None:
    connection = sqlite3.connect(second)
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    assert not check(second).ok


@pytest.fixture
def third(tmp_path: Path) -> Path:
    return unpacked(THIRD, tmp_path)


def key_of_the_third() -> SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


def test_a_signed_file_of_the_third_version_is_read_and_paid_from_as_it_is(third: Path) -> None:
    key = key_of_the_third()
    with Ledger.open(third, read_only=True) as ledger:
        found = ledger.verify(head=THIRD_HEAD, public_key=key.public_key)
        assert (found.problem, found.head, found.ledger) == (None, THIRD_HEAD, None)
        assert list(ledger.rounds()) == [make_record(1), make_record(2)]
        assert ledger.pay_list(public_key=key.public_key).total == 600
        with pytest.raises(LedgerError, match="must be of version 4"):
            ledger.signed_head()
    assert third.read_bytes() == gzip.decompress(THIRD.read_bytes())


def test_a_signed_file_of_the_third_version_is_migrated_and_continued(third: Path) -> None:
    key = key_of_the_third()
    with Ledger.open(third, read_only=True) as ledger:
        before = ledger.pay_list()
    with Ledger.open(third, key=key) as ledger:
        assert ledger.pay_list() == before  # the id of a list that was paid stays as it is
        ledger.resume_run(1)
        ledger.append(make_record(2))
        assert ledger.head == THIRD_HEAD
        ledger.append(make_record(3))
        head = ledger.signed_head()
        assert (head.sequence, head.runs, head.rounds) == (4, 1, 3)
        assert head.problem(key.public_key) is None
        found = ledger.verify(head=THIRD_HEAD, public_key=key.public_key)
        assert (found.problem, found.ledger) == (None, ledger.id)
        assert ledger.pay_list(until=THIRD_HEAD) == before
    assert version(third) == VERSION


def test_two_migrations_of_one_file_are_two_ledgers(third: Path) -> None:
    other = Path(shutil.copy(third, third.with_name("other.ledger")))
    ids = set()
    for path in (third, other):
        with Ledger.open(path) as ledger:
            ids.add(ledger.id)
    assert len(ids) == 2
