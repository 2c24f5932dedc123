"""Any change of stored content is found, by whatever way it was made."""

import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest

from fedmerit.errors import LedgerCorruptError, LedgerError, MissingExtraError
from fedmerit.ledger import Ledger, SigningKey
from fedmerit.ledger.file.schema import TABLE_NAMES, TRIGGERS
from tests.ledger.builders import make_ledger, make_record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.ledger"


class Forger:
    """Someone with write access to the file, who puts the guards back when done."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)

    def __enter__(self) -> sqlite3.Connection:
        self.connection.execute("PRAGMA foreign_keys = OFF")
        self.connection.execute("PRAGMA synchronous = OFF")
        self.connection.execute("BEGIN")
        for (name,) in self.connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            self.connection.execute(f"DROP TRIGGER {name}")
        return self.connection

    def __exit__(self, *_: object) -> None:
        for trigger in TRIGGERS:
            self.connection.execute(trigger)
        self.connection.execute("COMMIT")
        self.connection.close()


def check(path: Path, **options):
    with Ledger.open(path, read_only=True) as ledger:
        return ledger.verify(**options)


def cells(path: Path) -> list[tuple[str, str, tuple, object]]:
    """Every stored cell: table, column, primary key of its row, value."""
    connection = sqlite3.connect(path)
    found = []
    for table in TABLE_NAMES:
        info = connection.execute(f"SELECT * FROM pragma_table_info('{table}')").fetchall()
        columns = [row[1] for row in info]
        keys = [columns.index(row[1]) for row in info if row[5]]
        for row in connection.execute(f"SELECT * FROM {table}").fetchall():
            where = tuple((columns[key], row[key]) for key in keys)
            found += [(table, name, where, value) for name, value in zip(columns, row, strict=True)]
    connection.close()
    return found


def forgeries(value: object) -> list[object]:
    """Return values that differ from `value` by very little, or in kind."""
    if value is None:
        return [0, "", b""]
    if isinstance(value, int):
        return [value + 1, value ^ 1, value - 2**40]
    if isinstance(value, float):
        return [np.nextafter(value, 9).item(), -value if value else 1.0, None]
    if isinstance(value, str):
        return [
            value + " ",
            value[:-1] if value else "x",
            value.swapcase() + "\x00",
            value.encode(),
        ]
    assert isinstance(value, bytes)
    return [bytes([value[0] ^ 1]) + value[1:], value[:-1] + bytes([value[-1] ^ 128]), value[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("signed", [False, True])
def test_every_forged_cell_is_found(path: Path, signed: bool) -> None:
    make_ledger(path, rounds=2, key=SigningKey.generate() if signed else None)
    assert check(path).ok
    original, tried = path.read_bytes(), 0
    for table, column, where, value in cells(path):
        for forged in forgeries(value):
            with Forger(path) as connection:
                condition = " AND ".join(f"{name} = ?" for name, _ in where)
                key = [item for _, item in where]
                before = connection.execute(f"SELECT * FROM {table}").fetchall()
                try:
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? WHERE {condition}", [forged, *key]
                    )
                except sqlite3.IntegrityError:
                    continue  # SQLite itself refuses it
                after = connection.execute(f"SELECT * FROM {table}").fetchall()
            if repr(before) == repr(after):
                continue  # column affinity turned the forgery back into the value
            result = check(path)
            assert not result.ok, (table, column, where, value, forged)
            tried += 1
            path.write_bytes(original)
    assert tried > 300


def content(path: Path) -> list:
    with Ledger.open(path, read_only=True) as ledger:
        rounds = list(ledger.history())
        return [ledger.runs(), rounds, ledger.summaries(), ledger.payouts(), ledger.head]


@pytest.mark.slow
def test_a_flipped_byte_of_the_file_is_found_or_touches_no_content(path: Path) -> None:
    make_ledger(path, rounds=4)
    original = path.read_bytes()
    expected = repr(content(path))
    rng = np.random.default_rng(0)
    found = 0
    for offset in rng.choice(len(original), size=1500, replace=False):
        flipped = bytearray(original)
        flipped[offset] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        try:
            ok = check(path).ok
        except LedgerError:
            ok = False
        if ok:
            assert repr(content(path)) == expected, offset
        found += not ok
    assert found > 100


def test_a_flipped_byte_of_the_contents_text_is_found(path: Path) -> None:
    make_ledger(path, rounds=2)
    original = path.read_bytes()
    for needle in (
        b"client 1",
        b"no agreement",
        b"NaN in update",
        b"budget",
        b"accuracy",
        b"0.1.0",
    ):
        at = original.find(needle)
        assert at > 0
        for offset in range(at, at + len(needle)):
            flipped = bytearray(original)
            flipped[offset] ^= 4
            path.write_bytes(flipped)
            assert not check(path).ok, (needle, offset)


def test_the_first_bad_round_is_named(path: Path) -> None:
    make_ledger(path, rounds=5)
    with Forger(path) as connection:
        connection.execute("UPDATE scores SET reward = reward + 1 WHERE sequence IN (4, 5)")
    result = check(path)
    assert (result.run, result.round, result.rounds) == (1, 3, 2)
    assert result.problem == "round 3 of run 1: the content is not what was recorded"
    with pytest.raises(LedgerCorruptError, match="round 3 of run 1"):
        result.require()


def test_a_changed_configuration_is_named(path: Path) -> None:
    make_ledger(path)
    with Forger(path) as connection:
        connection.execute("UPDATE runs SET config = '{}'")
    result = check(path)
    assert (result.run, result.round) == (1, None)
    assert result.problem == "run 1: the content is not what was recorded"


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM entries WHERE sequence = 2", "entry 2 is missing"),
        ("DELETE FROM rounds WHERE sequence = 3", "the round of entry 3 is missing"),
        ("DELETE FROM runs", "the run of entry 1 is missing"),
        ("DELETE FROM scores WHERE sequence = 3 AND position = 2", "round 2 of run 1"),
        ("INSERT INTO clients (client) VALUES ('ghost')", "occurs in no round"),
        ("INSERT INTO metrics VALUES (77, 0, 'x', 1)", "metrics holds a row that belongs to no"),
        ("INSERT INTO rounds VALUES (1, 1, 99, 3)", "rounds must hold 3 rows, got 4"),
        ("INSERT INTO scores (sequence, position, client, flagged, reason) "
         "VALUES (3, 9, 1, 0, '')", "round 2 of run 1"),
        ("CREATE TRIGGER bonus AFTER INSERT ON scores BEGIN SELECT 1; END", "bonus is unknown"),
        ("CREATE INDEX quick ON scores (client)", "index quick is unknown"),
    ],
)  # fmt: skip
def test_rows_that_came_or_went_are_found(path: Path, statement: str, problem: str) -> None:
    make_ledger(path)
    with Forger(path) as connection:
        connection.execute(statement)
    result = check(path)
    assert not result.ok
    assert problem in str(result.problem)


def test_a_missing_guard_is_found(path: Path) -> None:
    make_ledger(path)
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER scores_refuse_update")
    connection.close()
    assert "trigger scores_refuse_update is missing" in str(check(path).problem)


def test_removed_newest_rounds_are_seen_against_a_remembered_head(path: Path) -> None:
    """The file alone cannot show it: a shorter chain is a valid chain."""
    head = make_ledger(path, rounds=3)
    with Forger(path) as connection:
        for table in ("agreements", "metrics", "scores", "rejections", "rounds", "entries"):
            connection.execute(f"DELETE FROM {table} WHERE sequence = 4")
    assert check(path).ok
    assert "rounds were removed or replaced" in str(check(path, head=head).problem)
    with Ledger.open(path) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(3))
        assert not ledger.verify(head=head).ok


def test_a_remembered_head_stays_valid_as_the_ledger_grows(path: Path) -> None:
    head = make_ledger(path, rounds=2)
    with Ledger.open(path) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(3))
        assert ledger.verify(head=head).ok
        with pytest.raises(LedgerError, match="hash must be 64 hexadecimal digits, got 'abc'"):
            ledger.verify(head="abc")


def test_a_signed_chain_cannot_be_rewritten_without_the_key(path: Path) -> None:
    key, other = SigningKey.generate(), SigningKey.generate()
    make_ledger(path, key=key)
    assert check(path, public_key=key.public_key).ok
    assert "not signed with the given key" in str(check(path, public_key=other.public_key).problem)
    with Forger(path) as connection:
        connection.execute("UPDATE entries SET signature = NULL WHERE sequence = 3")
    assert check(path).problem == "round 2 of run 1: the signature does not hold"


def test_a_run_is_continued_with_its_own_key(path: Path, tmp_path: Path) -> None:
    key = SigningKey.generate()
    key.save(tmp_path / "key.pem")
    assert (tmp_path / "key.pem").stat().st_mode & 0o77 == 0
    make_ledger(path, key=key)
    with Ledger.open(path, key=SigningKey.load(tmp_path / "key.pem")) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(4))
        assert ledger.verify(public_key=key.public_key).rounds == 4
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="with the key it was start"):
        ledger.resume_run(1)
    with pytest.raises(LedgerError, match="cannot write a new key"):
        key.save(tmp_path / "key.pem")
    (tmp_path / "bad.pem").write_text("no key")
    with pytest.raises(LedgerError, match="cannot read a private key"):
        SigningKey.load(tmp_path / "bad.pem")


def test_an_empty_ledger_verifies(path: Path) -> None:
    Ledger.open(path).close()
    result = check(path)
    assert (result.ok, result.head, result.rounds) == (True, None, 0)


def test_signing_without_its_library_says_what_to_install(path: Path, monkeypatch) -> None:
    key = SigningKey.generate()
    make_ledger(path, key=key)
    for name in ("cryptography.exceptions", "cryptography.hazmat.primitives.asymmetric.ed25519"):
        monkeypatch.setitem(sys.modules, name, None)
    for action in (SigningKey.generate, lambda: SigningKey.load("key"), lambda: check(path)):
        with pytest.raises(MissingExtraError, match=r"pip install 'fedmerit\[ledger\]'"):
            action()


def test_a_key_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    SigningKey.generate().save(path)
    SigningKey.load(path)  # no warning, or the test would end here
    for mode in (0o640, 0o604, 0o666):
        path.chmod(mode)
        with pytest.warns(UserWarning, match=rf"readable by its owner only, got mode {mode:o}"):
            SigningKey.load(path)
