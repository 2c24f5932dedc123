"""Heads kept elsewhere: what was cut, emptied, swapped or continued twice is told."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from checks.faults.records import intruder
from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.ledger import Head, Ledger, SigningKey, append_head, read_head, read_log
from fedmerit.ledger.proof.heads import to_json
from fedmerit.ledger.proof.signing import HEAD
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
    with pytest.raises(LedgerCorruptError, match="must go on from its anchors, 4 entries"):
        grow(old, 3, anchor=log)
    grow(path, 4, anchor=log)
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.verify().rounds == 4


@pytest.mark.parametrize("digest", ["0" * 64, "f" * 64], ids=["below", "above"])
def test_a_chain_beside_the_newest_anchor_is_not_written_to(
    path: Path, log: Path, digest: str
) -> None:
    with Ledger.open(path, key=KEY) as ledger:
        head = ledger.signed_head()
    log.parent.mkdir()
    append_head(log, replace(head, hash=digest, public_key=None, signature=None))
    with pytest.raises(LedgerCorruptError, match="must go on from its anchors, 3 entries"):
        grow(path, 3, anchor=log)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda lines: lines[1:], "it does not follow from the line before"),
        (lambda lines: [lines[0], lines[0]], "it does not follow from the line before"),
        (lambda lines: [lines[0].replace(b'"rounds": 2, "runs": 1', b'"rounds": 1, "runs": 2'),
                        lines[1]],
         "the signature of the witness does not hold"),
        (lambda lines: [lines[0].replace(b'"rounds": 2', b'"rounds": 9')], "got 3 and 10"),
        (lambda lines: [lines[0].replace(b'"rounds": 2, "runs": 1, "sequence": 3',
                                         b'"rounds": 0, "runs": 0, "sequence": 0')], "got 0 and 0"),
        (lambda lines: [lines[0].replace(b'"at": "', b'"at": "' + b"x" * 10**4)], "at most 10000"),
        (lambda lines: [lines[0].replace(b"20", b"19", 1), lines[1]], "line 1 of"),
        (lambda lines: [b"{}", lines[1]], "a line must have at, head, previous, witness"),
        (lambda lines: [b"[" * 9_000, lines[1]], "it must be JSON"),
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
    from fedmerit.disk.lock import WriterLock
    from fedmerit.errors import LedgerBusyError

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


def test_nobody_else_can_put_in_a_head_that_the_ledger_does_not_have(path, log) -> None:
    """It would stay for ever, and the good ledger would look cut from then on."""
    anchor(path, log, key=WITNESS)
    with Ledger.open(path, read_only=True) as ledger:
        head = ledger.signed_head()
    far = replace(head, sequence=2**62 + 1, runs=1, rounds=2**62, hash="ab" * 32)
    with pytest.raises(LedgerCorruptError, match="the signature does not hold"):
        append_head(log, far, key=WITNESS)
    unsigned = replace(far, public_key=None, signature=None)
    with pytest.raises(LedgerCorruptError, match=r"must go on being signed with .*, got none"):
        append_head(log, unsigned, key=WITNESS)
    other = SigningKey.generate()
    signed = replace(
        far, public_key=other.public_key.hex(), signature=other.sign(far.message, HEAD).hex()
    )
    with pytest.raises(LedgerCorruptError, match="or with a key that you name"):
        append_head(log, signed, key=WITNESS)
    grow(path, 3)
    anchor(path, log, key=WITNESS)
    assert problem(path, log) is None


def test_a_new_key_of_an_anchored_ledger_must_be_named(path: Path, log: Path) -> None:
    anchor(path, log)
    new = SigningKey.generate()
    with Ledger.open(path, key=new) as ledger:
        ledger.start_run({}, "1")
        with pytest.raises(LedgerCorruptError, match="or with a key that you name"):
            ledger.anchor(log)
        with pytest.raises(LedgerCorruptError, match="it is not signed with the given key"):
            ledger.anchor(log, public_key=new.public_key)
        ledger.anchor(log, public_key=[KEY.public_key, new.public_key])
        ledger.append(make_record(1))
        ledger.anchor(log)
    assert len(read_log(log)) == 3


def test_a_bad_ledger_is_not_anchored(path: Path, log: Path) -> None:
    with Forger(path) as connection:
        connection.execute("UPDATE scores SET reward = 9")
    with pytest.raises(LedgerCorruptError, match="round 1 of run 1"):
        anchor(path, log)
    assert not log.exists()


@pytest.mark.parametrize("content", [b"x", b"a note without an end", b'{"hash": "', b"\x00" * 99])
def test_a_file_that_is_no_log_is_left_as_it_is(path: Path, log: Path, content: bytes) -> None:
    log.parent.mkdir()
    log.write_bytes(content)
    with pytest.raises(LedgerError, match="must be a log of heads"):
        anchor(path, log)
    assert log.read_bytes() == content


def test_a_ledger_that_its_log_does_not_know_is_not_written_to(path, log, tmp_path) -> None:
    anchor(path, log)
    make_ledger(tmp_path / "other.ledger", rounds=1, key=KEY)
    for other in (log, tmp_path / "missing.log"):
        with pytest.raises(LedgerCorruptError, match="must be known to the log"):
            grow(tmp_path / "other.ledger", 2, anchor=other)
    with Ledger.open(tmp_path / "new.ledger", key=KEY, anchor=log) as ledger:
        ledger.start_run({}, "1")  # a new one has nothing that could be missing


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a file without an end")
def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for source in (Path("/dev/zero"), tmp_path / "pipe"):
        for read in (read_log, read_head, SigningKey.load):
            with pytest.raises(LedgerError, match="it must be a file"):
                read(source)


def test_a_longer_chain_from_a_backup_is_anchored_nowhere(path, log, tmp_path) -> None:
    """It would stay in the log for ever, and both chains would fail from then on."""
    backup = Path(shutil.copy(path, tmp_path / "backup.ledger"))
    grow(path, 3)
    anchor(path, log)
    for number in (3, 4):
        grow(backup, number)
    with pytest.raises(LedgerCorruptError, match="a second one that was continued"):
        anchor(backup, log)
    assert len(read_log(log)) == 1
    assert problem(path, log) is None
    grow(path, 4, anchor=log)
    # A bare head tells nobody which chain it is of. Afterwards neither chain is written to.
    with Ledger.open(backup, read_only=True) as ledger:
        append_head(log, ledger.signed_head())
    for file in (path, backup):
        with pytest.raises(LedgerCorruptError, match="must go on from its anchors"):
            grow(file, 5, anchor=log)


@pytest.mark.parametrize("key", [None, SigningKey.generate()], ids=["unsigned", "another key"])
def test_nothing_is_signed_on_top_of_a_run_that_somebody_else_added(path, key) -> None:
    with intruder(path, key=key) as ledger:
        ledger.start_run({}, "1")
        ledger.append(make_record(1))
    for action in (lambda ledger: ledger.start_run({}, "1"), lambda ledger: ledger.resume_run(1)):
        with (
            Ledger.open(path, key=KEY) as ledger,
            pytest.raises(LedgerCorruptError, match="newest entry must not be built upon"),
        ):
            action(ledger)
    if key is not None:  # a second operator, who is named
        with Ledger.open(path, key=KEY, public_key=key.public_key) as ledger:
            assert ledger.start_run({}, "1") == 3


def test_a_signed_ledger_is_not_continued_without_a_key(path: Path) -> None:
    """A run without a signature would make the whole ledger unfit to be paid from."""
    with Ledger.open(path) as ledger:
        for action in (lambda: ledger.start_run({}, "1"), lambda: ledger.resume_run(1)):
            with pytest.raises(LedgerError, match=r"with (a|the) key"):
                action()
        assert ledger.verify(public_key=KEY.public_key).ok


def test_a_new_key_goes_on_where_another_one_ended(path: Path) -> None:
    new = SigningKey.generate()
    with Ledger.open(path, key=new) as ledger:
        assert ledger.start_run({}, "1") == 2
        keys = (KEY.public_key, new.public_key)
        assert ledger.verify(public_key=keys).ok


def test_no_keys_are_not_any_key(path: Path) -> None:
    with (
        Ledger.open(path, read_only=True) as ledger,
        pytest.raises(LedgerError, match="must be a key or several, got none"),
    ):
        ledger.verify(public_key=[])


@pytest.mark.parametrize("digest", ["0" * 64, "f" * 64], ids=["below", "above"])
def test_a_second_head_for_as_many_entries_is_refused(path: Path, log: Path, digest: str) -> None:
    anchor(path, log)
    (line,) = read_log(log)
    other = replace(line.head, hash=digest, public_key=None, signature=None)
    with pytest.raises(LedgerCorruptError, match="two chains were continued from one copy"):
        append_head(log, other)


def test_a_head_that_is_signed_later_is_no_second_head(path: Path, log: Path) -> None:
    with Ledger.open(path, read_only=True) as ledger:
        head = ledger.signed_head()
    log.parent.mkdir()
    append_head(log, replace(head, public_key=None, signature=None))
    assert append_head(log, head).head == head
    assert len(read_log(log)) == 2
