import dataclasses
import gc
import math
import os
import sqlite3
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from fedmerit.errors import LedgerBusyError, LedgerCorruptError, LedgerError
from fedmerit.flags import Flag, Kind
from fedmerit.ledger import Ledger
from fedmerit.ledger.file import schema
from fedmerit.types import ClientRecord, Rejection, RoundRecord
from tests.ledger.builders import make_ledger, make_record

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.ledger"


def test_records_come_back_as_they_were(path: Path) -> None:
    records = [make_record(number) for number in range(1, 4)]
    with Ledger.open(path) as ledger:
        assert ledger.start_run({"seed": 1}, "1.2.3") == 1
        for record in records:
            ledger.append(record)
        assert list(ledger.rounds(1)) == records
        assert ledger.verify().ok
    with Ledger.open(path, read_only=True) as ledger:
        assert list(ledger.rounds()) == records
        (run,) = ledger.runs()
    assert (run.config, run.software, run.rounds) == ({"seed": 1}, "1.2.3", 3)


HOSTILE = [
    "'; DROP TABLE scores; --",
    'a"b',
    "null\x00byte",
    "é",
    "e\u0301",  # the same letter in other code points: another client
    "\u202egnp.exe",
    "",
    " ",
    "%s %d {}",
    "=1+1",
    "x" * 10_000,
]


def test_client_ids_are_stored_as_text_and_nothing_else(path: Path) -> None:
    clients = tuple(
        ClientRecord(name, 0.5, 0.1, flag=Flag(Kind.OTHER, name, name), reward=1, label=name)
        for name in HOSTILE
    )
    record = RoundRecord(1, clients, tuple(Rejection(name, name) for name in HOSTILE))
    with Ledger.open(path) as ledger:
        ledger.start_run({"name": HOSTILE[0]}, HOSTILE[1])
        ledger.append(record)
        assert list(ledger.rounds()) == [record]
        assert sorted(payout.client for payout in ledger.payouts()) == sorted(HOSTILE)
        assert ledger.verify().ok


def test_numbers_that_sqlite_has_no_room_for(path: Path) -> None:
    odd = ClientRecord("a", math.nan, -0.0, p_value=1e100, epsilon=5e-324, reward=2**63 - 8)
    numpy_values = ClientRecord(
        np.str_("b"), np.float32(0.5), np.float64(1), flag=Flag(Kind.COPY), reward=np.int64(7)
    )
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        ledger.append(RoundRecord(1, (odd, numpy_values), metrics={"loss": math.nan}))
        assert ledger.verify().ok
        ((first, second),) = (record.clients for record in ledger.rounds())
        assert math.isnan(next(ledger.rounds()).metrics["loss"])
    assert math.isnan(first.score)
    assert math.copysign(1, first.weight) == 1
    assert (first.p_value, first.epsilon, first.reward) == (1e100, 5e-324, 2**63 - 8)
    assert (second.client, second.score, second.flagged, second.reward) == ("b", 0.5, True, 7)


def test_a_kind_that_could_not_be_read_again_is_not_written(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        with pytest.raises(LedgerError, match=r"kind must be one of explained, .*, got 'rude'"):
            ledger.append(RoundRecord(1, (), (Rejection("a", "b", "rude"),)))


@pytest.mark.parametrize(
    ("client", "message"),
    [
        (ClientRecord("\ud800", 0, 0), "client must be valid Unicode"),
        (ClientRecord(7, 0, 0), "client must be text, got 7"),
        (ClientRecord("a", "high", 0), "score must be a number, got 'high'"),
        (ClientRecord("a", 0, 0, reward=2**63), "reward must fit in 64 bits"),
        (ClientRecord("a", 0, 0, reward=1.5), "reward must be an integer, got 1.5"),
        (ClientRecord("a", 0, 0, reward=-1), "reward must not be negative, got -1"),
        (ClientRecord("a", 0, 0, num_examples=-1), "num_examples must not be negative, got -1"),
        (ClientRecord("a", math.inf, 0), "score must be finite and at most 1e.100, got inf"),
        (ClientRecord("a", 1e308, 0), "score must be finite and at most 1e.100"),
        (ClientRecord("a", 0, -math.inf), "weight must be finite and at most 1e.100, got -inf"),
        (ClientRecord("a", 0, 0, math.inf), "p_value must be finite and at most 1e.100, got inf"),
        (ClientRecord("a", 10**400, 0), "score must be a number, got 1000"),
        (ClientRecord("new", 0, 0), "a client must be in a round once, got 'new' twice"),
        (ClientRecord("a", 0, 0, label=7), "label must be text, got 7"),
        (ClientRecord("a", 0, 0, flag="copy"), "flagged must be that of a record: 'str'"),
    ],
)
def test_records_that_cannot_be_kept_are_refused_whole(path: Path, client, message: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        with pytest.raises(LedgerError, match=message):
            ledger.append(RoundRecord(1, (ClientRecord("new", 0, 0), client)))
        ledger.append(make_record(1))
        assert [record.round for record in ledger.rounds()] == [1]
        assert ledger.verify().ok


def test_appending_the_same_round_again_changes_nothing(path: Path) -> None:
    make_ledger(path, rounds=2)
    with Ledger.open(path) as ledger:
        ledger.resume_run(1)
        head = ledger.head
        ledger.append(dataclasses.replace(make_record(2), seconds={"train": 3.0}))
        assert ledger.head == head
        other = dataclasses.replace(make_record(2), metrics={})
        with pytest.raises(LedgerError, match="round 2 of run 1 is there already, with other"):
            ledger.append(other)
        ledger.append(make_record(3))
        assert ledger.verify().rounds == 3


def test_runs_may_alternate(path: Path) -> None:
    with Ledger.open(path) as ledger:
        assert [ledger.start_run({}, "1"), ledger.start_run({}, "1")] == [1, 2]
        ledger.append(make_record(1))
        ledger.resume_run(1)
        ledger.append(make_record(1))
        ledger.append(make_record(2))
        assert [run.rounds for run in ledger.runs()] == [2, 1]
        assert [record.round for record in ledger.rounds(1)] == [1, 2]
        assert ledger.verify().ok
        with pytest.raises(LedgerError, match="run must be one of this ledger, got 9"):
            ledger.resume_run(9)


def test_append_needs_a_run(path: Path) -> None:
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="start_run or resume_run"):
        ledger.append(make_record(1))


def test_a_reader_cannot_write(path: Path) -> None:
    make_ledger(path)
    message = "must be open for writing to start a run"
    with Ledger.open(path, read_only=True) as ledger, pytest.raises(LedgerError, match=message):
        ledger.start_run({}, "1")


def test_a_second_writer_in_the_same_process_is_refused(path: Path) -> None:
    with Ledger.open(path):
        with pytest.raises(LedgerBusyError, match="already open for writing in this process"):
            Ledger.open(path)
        link = path.with_name("other name")
        link.symlink_to(path)
        with pytest.raises(LedgerBusyError):
            Ledger.open(link)
    Ledger.open(path).close()


def test_a_second_process_is_refused_and_reads_meanwhile(path: Path) -> None:
    code = textwrap.dedent("""
        import sys
        from fedmerit.errors import LedgerBusyError
        from fedmerit.ledger import Ledger
        with Ledger.open(sys.argv[1], read_only=True) as ledger:
            print(len(list(ledger.rounds())), ledger.verify().ok)
        try:
            Ledger.open(sys.argv[1])
        except LedgerBusyError as error:
            print(error)
    """)
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        ledger.append(make_record(1))
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        )
        ledger.append(make_record(2))
    first, second = done.stdout.splitlines()
    assert first == "1 True"
    assert second == f"one writer at a time: {path} is being written by process {os.getpid()}"


def test_a_reader_keeps_reading_while_rounds_are_added(path: Path) -> None:
    make_ledger(path, rounds=2)
    with Ledger.open(path) as writer, Ledger.open(path, read_only=True) as reader:
        writer.resume_run(1)
        history = reader.rounds()
        assert next(history).round == 1
        writer.append(make_record(3))
        assert [record.round for record in history] == [2]
        assert [record.round for record in reader.rounds()] == [1, 2, 3]


@pytest.mark.parametrize("table", schema.TABLE_NAMES)
def test_rows_cannot_be_changed_or_removed_by_accident(path: Path, table: str) -> None:
    make_ledger(path)
    connection = sqlite3.connect(path)
    column = connection.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchone()[0]
    for statement in (f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"):
        with pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"):
            connection.execute(statement)
    connection.close()


def test_a_newer_schema_is_refused(path: Path) -> None:
    make_ledger(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    most = len(schema.MIGRATIONS)
    for read_only in (True, False):
        with pytest.raises(LedgerError, match=rf"schema must be at most {most},.*got 9.*newer fed"):
            Ledger.open(path, read_only=read_only)


def test_an_older_file_is_migrated_when_opened_for_writing(path: Path, monkeypatch) -> None:
    head = make_ledger(path)
    more = ("CREATE TABLE notes (note TEXT)",)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, more))
    with Ledger.open(path, read_only=True) as ledger:  # an older file can be read as it is
        assert ledger.verify(head=head).ok
    with Ledger.open(path) as ledger:
        assert ledger.verify(head=head).ok
        assert ledger._connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.verify(head=head).ok


@pytest.mark.parametrize(("packed", "rule"), [
    (b"12", "one byte per pair of clients, got 2 bytes"),
    (b"123456", "of the 3 clients of the round, got 4"),
    ("x", "must be bytes, got str"),
])  # fmt: skip
def test_agreement_must_be_of_the_round(path: Path, packed, rule: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        with pytest.raises(LedgerError, match=rule):
            ledger.append(dataclasses.replace(make_record(1), agreement=packed))


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch) -> None:
    head = make_ledger(path)
    broken = ("CREATE TABLE notes (note TEXT)", "CREATE TABLE notes (note TEXT)")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
        with pytest.raises(LedgerError, match="already exists"):
            Ledger.open(path)
    with Ledger.open(path) as ledger:
        assert ledger.verify(head=head).ok


def test_other_files_are_not_taken_for_a_ledger(path: Path) -> None:
    with pytest.raises(LedgerError, match="got no such file"):
        Ledger.open(path, read_only=True)
    path.touch()
    with pytest.raises(LedgerError, match="must be a ledger, got an empty file"):
        Ledger.open(path, read_only=True)
    path.write_text("a shopping list, long enough not to be an empty database" * 20)
    with pytest.raises(LedgerCorruptError, match="not a database"):
        Ledger.open(path, read_only=True)
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="is a database, but not a fedmerit ledger"):
        Ledger.open(path)
    assert path.read_bytes() == before
    with pytest.raises(LedgerError, match=r"cannot open .* for writing"):
        Ledger.open(path.parent / "missing" / "run.ledger")


def test_a_full_disk_is_a_clear_error_and_the_ledger_verifies(path: Path) -> None:
    """The limit makes SQLite report what a full disk makes it report, at the same places."""
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._connection.execute(f"PRAGMA max_page_count = {pages + 8}")

        def fill() -> None:
            for number in range(1, 1000):
                ledger.append(make_record(number, clients=50))

        with pytest.raises(LedgerError, match=r"cannot record round \d+: database or disk is full"):
            fill()
        written = len(list(ledger.rounds()))
        assert written > 0
        found = ledger.verify()
        assert (found.ok, found.rounds) == (True, written)
        ledger._connection.execute("PRAGMA max_page_count = 100000")
        ledger.append(make_record(written + 1, clients=60))
        assert ledger.verify().ok


def test_a_file_size_limit_is_a_clear_error_and_the_ledger_verifies(path: Path) -> None:
    """The operating system refuses to let the log grow: a real failing write."""
    code = textwrap.dedent("""
        import resource, signal, sys
        from fedmerit.errors import LedgerError
        from fedmerit.ledger import Ledger
        from tests.ledger.builders import make_record
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        ledger = Ledger.open(sys.argv[1])
        ledger.start_run({}, "1")
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        number = 0
        try:
            while number < 1000:
                ledger.append(make_record(number + 1, clients=100))
                number += 1
        except LedgerError as error:
            print(number, error)
    """)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    written, message = done.stdout.strip().split(" ", 1)
    assert message.startswith(f"cannot record round {int(written) + 1}: ")
    with Ledger.open(path) as ledger:
        found = ledger.verify()
        assert (found.ok, found.rounds) == (True, int(written))
        ledger.resume_run(1)
        ledger.append(make_record(int(written) + 1))
        assert ledger.verify().ok


def test_a_ledger_does_not_cross_a_fork(path: Path) -> None:
    make_ledger(path)
    with Ledger.open(path, read_only=True) as ledger:
        ledger._process += 1
        with pytest.raises(LedgerError, match="must be used in the process that opened it"):
            ledger.verify()
        ledger._process -= 1


def test_the_clock_may_go_backwards(path: Path) -> None:
    times = iter([1000.0, 500.0, -3.5, 2000.0])
    with Ledger.open(path, clock=lambda: next(times)) as ledger:
        ledger.start_run({}, "1")
        for number in (1, 2, 3):
            ledger.append(make_record(number))
        assert ledger.verify().ok
        assert [record.round for record in ledger.rounds()] == [1, 2, 3]
        since = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=400)
        assert [stored.record.round for stored in ledger.history(since=since)] == [1, 3]


def test_a_ledger_on_a_read_only_place_can_be_read(path: Path, monkeypatch) -> None:
    head = make_ledger(path)
    monkeypatch.setattr("fedmerit.ledger.file.connection.os.access", lambda *_: False)
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.verify(head=head).ok
    assert sorted(file.name for file in path.parent.iterdir()) == ["run.ledger", "run.ledger.lock"]


@pytest.mark.parametrize("config", [{"x": math.nan}, {"x": object()}, {"x": "\ud800"}, [1], "text"])
def test_configuration_must_be_plain(path: Path, config) -> None:
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="config must be"):
        ledger.start_run(config, "1")


def test_a_dataclass_is_a_configuration(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.start_run(Flag(Kind.COPY, twin="b"), "1")
        assert ledger.runs()[0].config == {"kind": "copy", "detail": "", "twin": "b"}


def test_a_forgotten_ledger_lets_the_next_writer_in(path: Path) -> None:
    ledger = Ledger.open(path)
    ledger.start_run({}, "1")
    del ledger
    gc.collect()
    with Ledger.open(path) as again:
        assert again.verify().runs == 1
    again.close()  # closing twice does no harm
    with pytest.raises(LedgerError, match="closed database"):
        again.runs()


def test_a_configuration_can_be_read_by_whoever_reads_it(tmp_path: Path) -> None:
    deep: object = 1
    for _ in range(100):
        deep = [deep]
    with Ledger.open(tmp_path / "run.ledger") as ledger:
        with pytest.raises(LedgerError, match="config must be nested at most 100 deep"):
            ledger.start_run({"a": deep}, "1")
        assert ledger.start_run({"a": deep[0]}, "1") == 1  # type: ignore[index]
