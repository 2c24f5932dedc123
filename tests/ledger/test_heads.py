"""Heads kept elsewhere: what was cut, emptied, swapped or continued twice is told."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.ledger import Head, Ledger, SigningKey, append_head, read_head, read_log
from fedmerit.ledger.heads import to_json
from tests.ledger.builders import make_ledger, make_record
from tests.ledger.test_verification import Forger

KEY, WITNESS = SigningKey.generate(), SigningKey.generate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_ledger(tmp_path / "run.ledger", rounds=2, key=KEY)
    return tmp_path / "run.ledger"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "elsewhere" / "heads.log"


def grow(path: Path, number: int, **options) -> None:
    with Ledger.open(path, key=KEY, **options) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(number))


def anchor(path: Path, log: Path, **options) -> None:
    log.parent.mkdir(exist_ok=True)
    with Ledger.open(path, read_only=True) as ledger:
        ledger.anchor(log, **options)


def problem(path: Path, log: Path) -> str | None:
    with Ledger.open(path, read_only=True) as ledger:
        return ledger.verify(public_key=KEY.public_key, anchors=read_log(log)).problem


def cut(path: Path, sequence: int) -> None:
    with Forger(path) as connection:
        for table in ("agreements", "metrics", "scores", "rejections", "rounds", "entries"):
            connection.execute(f"DELETE FROM {table} WHERE sequence >= {sequence}")


@pytest.mark.usefixtures("path")
def test_every_ledger_has_an_id_that_is_in_every_signature(tmp_path: Path) -> None:
    make_ledger(tmp_path / "other.ledger", rounds=2, key=KEY)
    heads = []
    for name in ("run.ledger", "other.ledger"):
        with Ledger.open(tmp_path / name, read_only=True) as ledger:
            heads.append(ledger.signed_head())
            assert heads[-1].ledger == ledger.id
    first, second = heads
    assert first.ledger != second.ledger
    assert (first.sequence, first.runs, first.rounds) == (3, 1, 2)
    assert first.problem(KEY.public_key) is None
    for change in (
        {"ledger": second.ledger},
        {"sequence": 4},
        {"runs": 2},
        {"rounds": 3},
        {"hash": second.hash},
    ):
        assert replace(first, **change).problem() == "the signature does not hold"
    assert first.problem(WITNESS.public_key) == "it is not signed with the given key"


def test_an_anchored_ledger_may_grow(path: Path, log: Path) -> None:
    anchor(path, log)
    grow(path, 3)
    anchor(path, log)
    assert problem(path, log) is None
    assert [line.head.rounds for line in read_log(log)] == [2, 3]
    anchor(path, log)  # a head that is there already changes nothing
    assert len(read_log(log)) == 2


def test_a_cut_ledger_passes_with_the_key_alone_and_is_told_by_an_anchor(path, log) -> None:
    anchor(path, log)
    cut(path, 3)
    with Ledger.open(path, read_only=True) as ledger:
        found = ledger.verify(public_key=KEY.public_key)
    assert found.ok
    assert any("newer entries may have been removed" in words for words in found.open)
    assert "must have the 3 entries that were anchored" in str(problem(path, log))


def test_an_emptied_ledger_is_told_by_the_key_alone(path: Path, log: Path) -> None:
    anchor(path, log)
    path.unlink()
    Ledger.open(path).close()
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.verify().ok
        assert "it is empty" in str(ledger.verify(public_key=KEY.public_key).problem)
        assert "knows nothing of ledger" in str(ledger.verify(anchors=read_log(log)).problem)


def test_a_ledger_swapped_for_another_of_the_same_key_is_told(path, log, tmp_path) -> None:
    make_ledger(tmp_path / "other.ledger", rounds=5, key=KEY)
    anchor(path, log)
    shutil.copy(tmp_path / "other.ledger", path)
    assert "knows nothing of ledger" in str(problem(path, log))


def test_two_chains_continued_from_one_backup_are_told_apart(path, log, tmp_path) -> None:
    backup = Path(shutil.copy(path, tmp_path / "backup.ledger"))
    anchor(path, log)
    for file in (path, backup):
        grow(file, 3)
    assert problem(path, log) is problem(backup, log) is None  # the anchor is older than the fork
    anchor(path, log)
    assert problem(path, log) is None
    assert "entry 4 is not the one that was anchored" in str(problem(backup, log))
    with pytest.raises(LedgerCorruptError, match="two chains were continued from one copy"):
        anchor(backup, log)


def test_a_witness_refuses_what_takes_anything_back(path: Path, log: Path, tmp_path: Path) -> None:
    old = Path(shutil.copy(path, tmp_path / "old.ledger"))
    grow(path, 3)
    anchor(path, log, key=WITNESS)
    with pytest.raises(LedgerCorruptError, match=r"got 3 entries ending in .*: the ledger was cut"):
        anchor(old, log, key=WITNESS)
    (line,) = read_log(log, WITNESS.public_key)
    assert line.witness == WITNESS.public_key.hex()
    with pytest.raises(
        LedgerCorruptError, match=r"line 1 of .*: it is not signed with the given w"
    ):
        read_log(log, KEY.public_key)


def test_an_older_copy_is_not_written_to(path: Path, log: Path, tmp_path: Path) -> None:
    old = Path(shutil.copy(path, tmp_path / "old.ledger"))
    grow(path, 3)
    anchor(path, log)
    with pytest.raises(LedgerCorruptError, match="must go on from its newest anchor, 4 entries"):
        grow(old, 3, anchor=log)
    grow(path, 4, anchor=log)
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.verify().rounds == 4


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda lines: lines[1:], "it does not follow from the line before"),
        (lambda lines: [lines[0], lines[0]], "it does not follow from the line before"),
        (lambda lines: [lines[0].replace(b'"rounds": 2', b'"rounds": 9'), lines[1]],
         "the signature of the witness does not hold"),
        (lambda lines: [lines[0].replace(b"20", b"19", 1), lines[1]], "line 1 of"),
        (lambda lines: [b"{}", lines[1]], "a line must have at, head, previous, witness"),
        (lambda lines: [b"[" * 100_000, lines[1]], "it must be JSON"),
        (lambda lines: [b"\xff", lines[1]], "it must be JSON"),
        (lambda lines: [lines[0].replace(b'"sequence": 3', b'"sequence": -3')], "must be a count"),
        (lambda lines: [lines[0].replace(b'"runs": 1', b'"runs": true')], "must be a count"),
        (lambda lines: [lines[0].replace(b'"hash": "', b'"hash": "x')], "must be 64 hexadecimal"),
    ],
)  # fmt: skip
def test_a_log_that_was_changed_is_refused(path: Path, log: Path, change, rule: str) -> None:
    anchor(path, log, key=WITNESS)
    grow(path, 3)
    anchor(path, log, key=WITNESS)
    lines = log.read_bytes().splitlines()
    log.write_bytes(b"".join(line + b"\n" for line in change(lines)))
    with pytest.raises(LedgerCorruptError, match=rule):
        read_log(log)


def test_a_line_that_was_being_written_when_the_machine_died_is_not_one(path, log) -> None:
    anchor(path, log)
    whole = log.read_bytes()
    grow(path, 3)
    anchor(path, log)
    log.write_bytes(log.read_bytes()[:-20])
    assert len(read_log(log)) == 1
    anchor(path, log)
    assert log.read_bytes().startswith(whole)
    assert [line.head.rounds for line in read_log(log)] == [2, 3]


def test_a_head_travels_as_json(path: Path, tmp_path: Path) -> None:
    with Ledger.open(path, read_only=True) as ledger:
        head = ledger.signed_head()
    (tmp_path / "head.json").write_text(to_json(head))
    assert read_head(tmp_path / "head.json") == head
    for text in ("", "[]", "{", '{"ledger": 1}', json.dumps({**vars(head), "rounds": 1e3})):
        (tmp_path / "head.json").write_text(text)
        with pytest.raises(LedgerError):
            read_head(tmp_path / "head.json")
    with pytest.raises(LedgerError, match="cannot read"):
        read_head(tmp_path / "nothing.json")


def test_a_head_that_is_not_signed_is_an_anchor_too(tmp_path: Path, log: Path) -> None:
    make_ledger(tmp_path / "plain.ledger")
    anchor(tmp_path / "plain.ledger", log)
    assert read_log(log)[0].head.public_key is None
    assert read_log(log)[0].head.problem() is None


def test_a_ledger_without_entries_has_no_head(tmp_path: Path) -> None:
    message = "record a run or a round first"
    with Ledger.open(tmp_path / "new") as ledger, pytest.raises(LedgerError, match=message):
        ledger.signed_head()


def test_one_writer_of_a_log_at_a_time(path: Path, log: Path) -> None:
    from fedmerit.errors import LedgerBusyError
    from fedmerit.lock import WriterLock

    log.parent.mkdir()
    lock = WriterLock(log, busy=LedgerBusyError, failed=LedgerError)
    with pytest.raises(LedgerBusyError):
        anchor(path, log)
    lock.release()
    anchor(path, log)


def test_a_signed_ledger_is_not_continued_behind_an_entry_that_is_not_sound(path: Path) -> None:
    with Forger(path) as connection:
        connection.execute("UPDATE entries SET signature = zeroblob(64) WHERE sequence = 3")
    with pytest.raises(LedgerCorruptError, match="newest entry must not be built upon"):
        grow(path, 3)


def test_heads_with_any_field_changed_are_other_heads() -> None:
    head = Head("a" * 64, 1, 1, 0, "b" * 64)
    assert head.message != replace(head, rounds=1).message


def test_appending_needs_a_place_to_write(path: Path, tmp_path: Path) -> None:
    with Ledger.open(path, read_only=True) as ledger:
        head = ledger.signed_head()
    with pytest.raises(LedgerError, match=r"cannot open .* for writing"):
        append_head(tmp_path / "missing" / "x.log", head)
