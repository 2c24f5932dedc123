"""One file, one writer, whatever names lead to it; nothing is walked in a file that was changed."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fedmerit.disk.files import whole_file
from fedmerit.errors import LedgerBusyError, LedgerCorruptError, LedgerError
from fedmerit.ledger import Ledger, RunRecorder
from tests.ledger.builders import make_ledger, make_record
from tests.ledger.test_verification import Forger, check

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place" / "run.ledger"


def second_writer(path: Path) -> str:
    """What another process gets that opens `path` for writing."""
    code = textwrap.dedent("""
        import sys
        from fedmerit.errors import LedgerError
        from fedmerit.ledger import Ledger
        try:
            Ledger.open(sys.argv[1])
            print("let in")
        except LedgerError as error:
            print(type(error).__name__)
    """)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def names_of(path: Path, tmp_path: Path) -> dict[str, Path]:
    """Other names of the same file."""
    names = {name: tmp_path / name for name in ("symbolic", "chain", "hard")}
    names["symbolic"].symlink_to(path)
    names["chain"].symlink_to(names["symbolic"])
    os.link(path, names["hard"])
    (tmp_path / "folder").symlink_to(path.parent)
    names["folder"] = tmp_path / "folder" / path.name
    names["roundabout"] = path.parent / ".." / path.parent.name / path.name
    return names


@pytest.mark.slow
def test_no_second_writer_by_any_name_nor_when_the_note_is_gone(path: Path, tmp_path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        path.with_name("run.ledger.lock").unlink()
        for name, other in {"same": path, **names_of(path, tmp_path)}.items():
            with pytest.raises(LedgerBusyError):
                Ledger.open(other)
            assert second_writer(other) == "LedgerBusyError", name
            for note in (*tmp_path.glob("*.lock"), *path.parent.glob("*.lock")):
                note.unlink()
        ledger.append(make_record(1))
        assert ledger.verify().rounds == 1


def test_a_ledger_with_two_names_is_refused_by_writers_and_readers(path: Path, tmp_path) -> None:
    """SQLite keeps the newest rounds beside the name: by the other name they would not be seen."""
    make_ledger(path, rounds=2)
    os.link(path, tmp_path / "hard")
    for name in (path, tmp_path / "hard"):
        for read_only in (True, False):
            with pytest.raises(LedgerError, match=r"must have one name, got 2 \(hard links\)"):
                Ledger.open(name, read_only=read_only)
    (tmp_path / "hard").unlink()
    assert check(path).rounds == 2


def test_a_reader_through_a_link_sees_what_is_in_the_log(path: Path, tmp_path, monkeypatch) -> None:
    make_ledger(path, rounds=2)
    link = tmp_path / "link.ledger"
    link.symlink_to(path)
    with Ledger.open(path) as writer:
        writer.resume_run(1)
        for number in (3, 4, 5):
            writer.append(make_record(number))
        # Where the link lies nothing can be written; that says nothing of where the file lies.
        access = os.access
        monkeypatch.setattr(os, "access", lambda p, mode: Path(p) != tmp_path and access(p, mode))
        assert check(link).rounds == 5


def test_a_backup_that_is_being_written_is_not_read_as_if_it_lay_still(path, monkeypatch) -> None:
    make_ledger(path, rounds=2)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Ledger.open(path, read_only=True) as reader:
        assert reader.verify().rounds == 2
        with Ledger.open(path) as writer:
            writer.resume_run(1)
            writer.append(make_record(3))
            with pytest.raises(LedgerBusyError, match="is being written: open it again"):
                reader.verify()
        with pytest.raises(LedgerBusyError):
            list(reader.rounds())
    assert check(path).rounds == 3


def test_a_writer_notices_that_its_file_was_moved_or_replaced(path: Path) -> None:
    make_ledger(path, rounds=1)
    with Ledger.open(path) as ledger:
        ledger.resume_run(1)
        path.rename(path.with_name("away"))
        with pytest.raises(LedgerError, match="was moved or removed"):
            ledger.append(make_record(2))
        make_ledger(path.with_name("new"))
        path.with_name("new").rename(path)
        with pytest.raises(LedgerError, match="was replaced by another file"):
            ledger.append(make_record(2))
        with pytest.raises(LedgerError, match="was replaced by another file"):
            ledger.verify()


def test_a_writer_notices_that_its_log_is_gone(path: Path) -> None:
    """SQLite would go on writing into a file without a name, and every round would be lost."""
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        ledger.append(make_record(1))
        path.with_name("run.ledger-wal").unlink()
        with pytest.raises(LedgerError, match=r"the log of .* was removed"):
            ledger.append(make_record(2))


def test_links_in_a_circle_are_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for read_only in (True, False):
        with pytest.raises(LedgerError):
            Ledger.open(tmp_path / "a", read_only=read_only)
    with pytest.raises(LedgerError):
        Ledger.open("nul\0byte", read_only=True)


def planted(path: Path, how: str, tmp_path: Path) -> Path:
    """Put something in the place of the note beside a ledger; return a file that must stay."""
    note, other = path.with_name("run.ledger.lock"), tmp_path / "precious.txt"
    other.write_text("mine")
    if how == "link":
        note.symlink_to(other)
    elif how == "hard link":
        os.link(other, note)
    elif how == "dangling link":
        note.symlink_to(tmp_path / "new.txt")
    elif how == "pipe":
        os.mkfifo(note)
    elif how == "endless":
        note.symlink_to("/dev/zero")
    else:
        note.mkdir()
    return other


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
@pytest.mark.parametrize("how", ["link", "hard link", "dangling link", "pipe", "endless", "folder"])
def test_the_note_of_a_writer_is_written_nowhere_else(path: Path, tmp_path: Path, how: str) -> None:
    other = planted(path, how, tmp_path)
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        assert other.read_text() == "mine"
        assert not (tmp_path / "new.txt").exists()
        assert second_writer(path) == "LedgerBusyError"


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("how", ["pipe", "link", "endless", "folder"])
def test_what_is_no_file_of_sqlites_is_not_waited_for(path: Path, how: str, ending: str) -> None:
    make_ledger(path)
    beside = path.with_name(path.name + ending)
    if how == "pipe":
        os.mkfifo(beside)
    elif how == "folder":
        beside.mkdir()
    else:
        beside.symlink_to("/dev/zero" if how == "endless" else path.with_name("elsewhere"))
    for read_only in (True, False):
        with pytest.raises(LedgerError, match="must be a file that SQLite wrote"):
            Ledger.open(path, read_only=read_only)


def test_a_trigger_that_is_planted_under_a_writer_runs_never(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        connection = sqlite3.connect(path)
        connection.execute(
            "CREATE TRIGGER bonus AFTER INSERT ON entries "
            "BEGIN INSERT INTO clients VALUES (9, 'm'); END"
        )
        connection.close()
        for write in (lambda: ledger.append(make_record(1)), lambda: ledger.start_run({}, "1")):
            with pytest.raises(LedgerCorruptError, match="trigger bonus is unknown"):
                write()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM entries").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM clients").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("version", [-1, -(2**31), 0])
def test_a_version_that_there_never_was_is_refused(path: Path, version: int) -> None:
    make_ledger(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    for read_only in (True, False):
        with pytest.raises(LedgerError, match="is a database, but not a fedmerit ledger"):
            Ledger.open(path, read_only=read_only)


ENDLESS = """CREATE VIEW {table} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT i AS sequence, 'run' AS kind, 0 AS recorded_at, x'00' AS hash, NULL AS signature,
    i AS run, i AS round, '' AS client, i AS number, 0 AS reward FROM n"""
SCHEMAS = [
    "DROP TABLE entries; " + ENDLESS.format(table="entries"),
    "DROP TABLE scores; " + ENDLESS.format(table="scores"),
    "DROP TABLE clients; " + ENDLESS.format(table="clients"),
    "CREATE TRIGGER bonus AFTER INSERT ON scores BEGIN UPDATE scores SET reward = 9; END",
    "DROP TRIGGER scores_refuse_update",
    "CREATE INDEX quick ON scores (client)",
    "CREATE TABLE entries2 (x)",
    "ALTER TABLE scores ADD COLUMN bonus",
    "PRAGMA user_version = 3",
]


@pytest.mark.parametrize("statements", SCHEMAS)
def test_a_changed_schema_is_told_before_anything_is_walked(path: Path, statements: str) -> None:
    make_ledger(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.executescript(statements)
    connection.close()
    with Ledger.open(path, read_only=True) as ledger:
        assert "the schema was changed" in str(ledger.verify().problem)
        for read in (
            ledger.runs,
            ledger.summaries,
            ledger.payouts,
            ledger.pay_list,
            ledger.signed_head,
            lambda: ledger.head,
            lambda: list(ledger.rounds()),
        ):
            with pytest.raises(LedgerCorruptError, match="the schema was changed"):
                read()
    with pytest.raises(LedgerCorruptError, match="the schema was changed"):
        Ledger.open(path)


def test_a_schema_that_is_changed_while_it_is_read_is_told(path: Path) -> None:
    make_ledger(path)
    with Ledger.open(path, read_only=True) as ledger:
        assert len(ledger.runs()) == 1
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE more (x)")
        connection.close()
        with pytest.raises(LedgerCorruptError, match="table more is unknown"):
            ledger.runs()


DAMAGE = [
    "runs SET config = '{'",
    "runs SET config = '" + "[" * 100_000 + "'",
    "runs SET config = x'00ff'",
    "runs SET config = 'null'",
    "runs SET config = '[]'",
    "runs SET config = '7'",
    "runs SET public_key = 'text'",
    "runs SET software = x'ff'",
    "entries SET recorded_at = 'noon'",
    "entries SET recorded_at = 9e300",
    "entries SET hash = 'text' || sequence",
    "entries SET signature = 7",
    "rounds SET round = 'one' || sequence",
    "rounds SET version = 'four'",
    "rounds SET version = x'00'",
    "rounds SET run = x'ff'",
    "rounds SET run = 'x'",
    "scores SET p_value = 9e999",
    "clients SET client = x'ff00' || number",
    "clients SET client = CAST(x'ff' AS TEXT) || number",
    "scores SET score = 'high'",
    "scores SET reward = 'much'",
    "scores SET reward = x'01'",
    "scores SET reward = 1.5",
    "scores SET kind = 'rude'",
    "scores SET kind = 7",
    "scores SET detail = x'ff'",
    "scores SET flagged = 'x'",
    "scores SET client = 99",
    "metrics SET value = 'low'",
    "metrics SET name = x'ff'",
    "rejections SET kind = 'rude'",
    "rejections SET reason = x'ff'",
    "agreements SET pairs = 'text'",
    "agreements SET pairs = x''",
    "identity SET ledger = 'text'",
    "identity SET secret = x'00'",
    "identity SET secret = CAST(x'eda080' AS TEXT)",
]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_row_ends_in_an_error_of_ours_wherever_it_is_met(path: Path, damage: str) -> None:
    from typer.testing import CliRunner

    from fedmerit.cli.app import app
    from fedmerit.errors import FedMeritError

    make_ledger(path)
    with Forger(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE {damage}")
    assert not check(path).ok
    out = path.parent
    for arguments in (
        ["ledger", "show", path],
        ["ledger", "verify", path, "--json"],
        ["ledger", "pay", path],
        ["ledger", "head", path],
        ["ledger", "anchor", path, "--to", out / "x.log"],
        ["statement", path, "--client", "client 1", "--out", out / "x-1.json"],
        ["ledger", "export", path, "--out", out / "x.csv"],
        ["ledger", "export", path, "--out", out / "x.json"],
        ["ledger", "export", path, "--out", out / "x.parquet"],
        ["report", path, "--out", out / "x.html"],
    ):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        expected = (SystemExit, FedMeritError, type(None))
        assert isinstance(result.exception, expected), (arguments, result.exception)
    for use in (_append, _record, Ledger.to_pandas, Ledger._repr_html_):
        with contextlib.suppress(FedMeritError), Ledger.open(path) as ledger:
            use(ledger)


def _append(ledger: Ledger) -> None:
    ledger.resume_run(1)
    ledger.append(make_record(4))


def _record(ledger: Ledger) -> None:
    RunRecorder(ledger, {}, "1", fingerprint="x", resume=True)(make_record(1))


def interior(child: int, size: int, cells: int) -> bytes:
    """A page of a table's tree that leads to one child, again and again."""
    page = bytearray(size)
    page[0], page[3:5], page[8:12] = 5, cells.to_bytes(2), child.to_bytes(4)
    for number in range(cells):
        place = size - 6 * (number + 1)
        page[place : place + 4] = child.to_bytes(4)
        page[place + 4 : place + 6] = bytes([0x80 | (number + 1) >> 7, (number + 1) & 0x7F])
        page[12 + 2 * number : 14 + 2 * number] = place.to_bytes(2)
    page[5:7] = (size - 6 * cells).to_bytes(2)
    return bytes(page)


def multiplied(path: Path, table: str, cells: int = 400) -> None:
    """Let the rows of a table stand in the file cells^2 times, with two more pages."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        root = connection.execute(query, (table,)).fetchone()[0]
    content = bytearray(path.read_bytes())
    at = slice((root - 1) * size, root * size)
    assert content[at][0] == 13  # a leaf of a table
    content += content[at] + interior(pages + 1, size, cells)
    content[at] = interior(pages + 2, size, cells)
    content[28:32], content[92:96] = (pages + 2).to_bytes(4), content[24:28]
    path.write_bytes(content)


@pytest.mark.parametrize("table", ["clients", "identity", "entries", "runs", "rounds"])
def test_rows_beyond_what_the_file_has_room_for_are_not_read(path: Path, table: str) -> None:
    make_ledger(path, rounds=2)
    multiplied(path, table)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute(f"SELECT count(*) FROM {table} NOT INDEXED").fetchone()[0] > 1e5
    assert "the file is damaged" in str(check(path).problem)
    told = []
    with Ledger.open(path, read_only=True) as ledger:
        for read in (
            ledger.runs, ledger.summaries, ledger.payouts, ledger.pay_list, ledger.signed_head,
            lambda: list(ledger.history()), lambda: ledger.statement("client 1"),
        ):  # fmt: skip
            try:
                read()
            except LedgerError as error:
                told.append(str(error))
    assert any("damaged" in words for words in told)


def test_nothing_takes_the_place_of_a_log_of_heads(path: Path, tmp_path: Path) -> None:
    make_ledger(path)
    with Ledger.open(path, read_only=True) as ledger:
        ledger.anchor(tmp_path / "heads.log")
    with pytest.raises(FileExistsError, match="a log of heads"), whole_file(tmp_path / "heads.log"):
        pytest.fail("it must not be written over")


def test_a_file_without_its_log_has_every_round_that_was_acknowledged(tmp_path: Path) -> None:
    """Under another name, in a container for one, nobody would look for the log."""
    path = tmp_path / "run.ledger"
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        for number in range(1, 6):
            ledger.append(make_record(number))
            copied = Path(shutil.copy(path, tmp_path / "copied.ledger"))
            with Ledger.open(copied, read_only=True) as read:
                assert [record.round for record in read.rounds()] == list(range(1, number + 1))
                assert read.verify().head == ledger.head
