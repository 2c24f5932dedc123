"""Forged, cut, swapped and doubled: the records of rounds, and heads of them kept elsewhere."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from checks.faults.base import Fault, refused, survived
from checks.faults.ledger import record
from fedmerit.disk.files import whole_file
from fedmerit.errors import FedMeritError, LedgerError
from fedmerit.ledger import Ledger, SigningKey, read_head, read_log
from fedmerit.ledger.export import export
from fedmerit.ledger.file.schema import TRIGGERS
from fedmerit.ledger.file.writing import Writer
from fedmerit.ledger.proof.heads import to_json


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    yield from _damaged_rows()
    yield from _changed_schemas()
    yield from _names()
    yield from _heads()


@contextmanager
def some_ledger(rounds: int = 3, key: SigningKey | None = None) -> Iterator[Path]:
    """Yield a ledger with a run of some rounds."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "run.ledger"
        with Ledger.open(path, key=key) as ledger:
            ledger.start_run({"rule": "positive"}, "1")
            for number in range(1, rounds + 1):
                ledger.append(record(number))
        yield path


@contextmanager
def intruder(path: Path, key: SigningKey | None = None) -> Iterator[Ledger]:
    """Open a ledger as somebody would who writes the file with a program of their own."""
    with (
        mock.patch.object(Writer, "_require_sound_end"),
        Ledger.open(path, key=key) as ledger,
    ):
        yield ledger


def _forge(path: Path, *statements: str) -> None:
    """Change the file as whoever can write it can, and put the guards back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        names = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (name,) in connection.execute(names).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for trigger in TRIGGERS:
            connection.execute(trigger)


def append_to(path: Path, number: int, key: SigningKey | None = None) -> None:
    """Record one more round."""
    with Ledger.open(path, key=key) as ledger:
        ledger.resume_run(1)
        ledger.append(record(number))


DAMAGES = (
    "runs SET config = '{'",
    "runs SET config = x'00ff'",
    "runs SET public_key = 'text'",
    "runs SET software = x'ff'",
    "runs SET version = 9",
    "runs SET version = NULL",
    "entries SET recorded_at = 'noon'",
    "entries SET recorded_at = 9e300",
    "entries SET hash = 'text' || sequence",
    "entries SET signature = 7",
    "entries SET kind = 'other'",
    "rounds SET round = 'one' || sequence",
    "rounds SET round = round + 1000",
    "rounds SET version = 'four'",
    "rounds SET version = 3",
    "rounds SET version = NULL",
    "rounds SET run = 9",
    "clients SET client = x'ff00' || number",
    "clients SET client = CAST(x'ff' AS TEXT) || number",
    "clients SET client = client || ' '",
    "scores SET score = 'high'",
    "scores SET score = score + 1e-9",
    "scores SET score = 9e999",
    "scores SET weight = NULL",
    "scores SET reward = 'much'",
    "scores SET reward = x'01'",
    "scores SET reward = 1.5",
    "scores SET reward = -5",
    "scores SET reward = reward + 1",
    "scores SET reward = 9223372036854775807",
    "scores SET kind = 'rude'",
    "scores SET kind = 'copy'",
    "scores SET detail = x'ff'",
    "scores SET flagged = 'x'",
    "scores SET client = 99",
    "scores SET client = 1 WHERE position = 1",
    "scores SET label = 'x'",
    "metrics SET value = 'low'",
    "metrics SET name = x'ff'",
    "rejections SET kind = 'rude'",
    "rejections SET reason = x'ff'",
    "identity SET ledger = 'text'",
    "identity SET ledger = zeroblob(32)",
    "identity SET secret = x'00'",
    "identity SET secret = zeroblob(32)",
)


def _damaged_rows() -> Iterator[Fault]:
    def met(damage: str) -> str:
        with some_ledger() as path:
            _forge(path, f"UPDATE {damage}")
            with Ledger.open(path, read_only=True) as ledger:
                checked = ledger.verify()
                assert not checked.ok, "it verifies"
                for read in (
                    ledger.runs,
                    ledger.summaries,
                    ledger.payouts,
                    ledger.pay_list,
                    ledger.signed_head,
                    partial(ledger.statement, "client-0"),
                    lambda: list(ledger.rounds()),
                    *(
                        partial(export, ledger, path.parent / "x", form)
                        for form in ("csv", "json", "parquet")
                    ),
                ):
                    try:
                        read()
                    except FedMeritError:
                        assert read is not None
                    else:
                        assert read != ledger.pay_list, "it is paid from"
            return str(checked.problem)

    for damage in DAMAGES:
        yield survived(
            "storage",
            "ledger",
            f"forged: {damage}",
            "noticed, not paid from, no reader crashes",
            partial(met, damage),
        )


_ENDLESS = """CREATE VIEW {table} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT i AS sequence, 'run' AS kind, 0 AS recorded_at, x'00' AS hash, NULL AS signature,
    i AS run, i AS round, '' AS client, i AS number, 0 AS reward FROM n"""


def _changed_schemas() -> Iterator[Fault]:
    changes = {
        f"{table} is a view without end": f"DROP TABLE {table}; " + _ENDLESS.format(table=table)
        for table in ("entries", "rounds", "scores", "clients", "metrics", "identity")
    } | {
        "a trigger that pays": "CREATE TRIGGER bonus AFTER INSERT ON scores BEGIN SELECT 1; END",
        "a guard is missing": "DROP TRIGGER scores_refuse_update",
        "an index more": "CREATE INDEX quick ON scores (client)",
        "a table more": "CREATE TABLE more (x)",
        "a column more": "ALTER TABLE scores ADD COLUMN bonus",
        "it claims to be older": "PRAGMA user_version = 2",
    }

    def changed(statements: str, *, write: bool) -> object:
        with some_ledger() as path:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA foreign_keys = OFF")
                connection.executescript(statements)
            if write:
                Ledger.open(path).close()
            else:
                with Ledger.open(path, read_only=True) as ledger:
                    assert not ledger.verify().ok, "it verifies"
                    return ledger.pay_list()
            return "opened"

    for name, statements in changes.items():
        for write in (False, True):
            who = "a writer opens it" if write else "somebody pays from it"
            yield refused(
                "storage",
                "ledger",
                f"{name}; {who}",
                "the schema was changed",
                partial(changed, statements, write=write),
            )


def _names() -> Iterator[Fault]:
    def second(make: Callable[[Path], Path]) -> object:
        with some_ledger() as path, Ledger.open(path):
            path.with_name(path.name + ".lock").unlink()
            return Ledger.open(make(path))

    def symbolic(path: Path) -> Path:
        (path.parent / "link").symlink_to(path)
        return path.parent / "link"

    def hard(path: Path) -> Path:
        os.link(path, path.parent / "hard")
        return path.parent / "hard"

    def roundabout(path: Path) -> Path:
        return path.parent / ".." / path.parent.name / path.name

    ways = {
        "its name": lambda p: p,
        "a link": symbolic,
        "a hard link": hard,
        "a detour": roundabout,
    }
    for name, make in ways.items():
        yield refused(
            "process",
            "ledger",
            f"a second writer by {name}, the note deleted",
            "one writer at a time",
            partial(second, make),
        )

    def by_hard_link(*, read_only: bool) -> object:
        with some_ledger() as path:
            return Ledger.open(hard(path), read_only=read_only)

    for read_only in (True, False):
        yield refused(
            "storage",
            "ledger",
            f"two names, opened {'to read' if read_only else 'to write'}",
            "must have one name",
            partial(by_hard_link, read_only=read_only),
        )

    def moved(change: Callable[[Path], object]) -> object:
        with some_ledger() as path, Ledger.open(path) as ledger:
            ledger.resume_run(1)
            ledger.append(record(4))
            change(path)
            return ledger.append(record(5))

    gone = {
        "the file is moved away": (lambda p: p.rename(p.with_name("away")), "moved or removed"),
        "the file is removed": (Path.unlink, "moved or removed"),
        "the file is replaced": (lambda p: (p.unlink(), p.write_bytes(b"x")), "was replaced"),
        "its log is removed": (lambda p: p.with_name(p.name + "-wal").unlink(), "was removed"),
    }
    for name, (change, message) in gone.items():
        yield refused(
            "storage",
            "ledger",
            f"while a writer is at work {name}",
            message,
            partial(moved, change),
        )


def _heads() -> Iterator[Fault]:
    key, witness = SigningKey.generate(), SigningKey.generate()

    def anchored(change: Callable[[Path], object], **known: Any) -> object:
        with some_ledger(key=key) as path:
            log = path.with_name("heads.log")
            with Ledger.open(path, read_only=True) as ledger:
                ledger.anchor(log, key=witness)
            change(path)
            with Ledger.open(path, read_only=True) as ledger:
                checked = ledger.verify(anchors=read_log(log, **known), public_key=key.public_key)
                checked.require()
            return "verifies"

    def cut(path: Path) -> None:
        _forge(
            path,
            *(
                f"DELETE FROM {table} WHERE sequence = 4"
                for table in ("metrics", "scores", "rejections", "rounds", "entries")
            ),
        )

    def emptied(path: Path) -> None:
        path.unlink()
        Ledger.open(path).close()

    def swapped(path: Path) -> None:
        with some_ledger(5, key) as other:
            shutil.copy(other, path)

    def continued(path: Path) -> None:
        cut(path)
        with Ledger.open(path, key=key) as ledger:
            ledger.resume_run(1)
            ledger.append(record(3, name="other-"))

    def unlogged(path: Path) -> None:
        path.with_name("heads.log").write_bytes(b"")

    def relogged(path: Path) -> None:
        log = path.with_name("heads.log")
        counted = (b'"rounds": 3, "runs": 1', b'"rounds": 2, "runs": 2')
        log.write_bytes(log.read_bytes().replace(*counted))

    changes = {
        "the newest round is cut off": (cut, "the newest were removed"),
        "the ledger is emptied": (emptied, "it is empty"),
        "another ledger of the same key": (swapped, "knows nothing of ledger"),
        "continued from a backup": (continued, "is not the one that was anchored"),
        "the log of heads is emptied": (unlogged, "knows nothing of ledger"),
        "a line of the log is changed": (relogged, "signature of the witness does not hold"),
    }
    for name, (change, message) in changes.items():
        yield refused(
            "conduct", "ledger verify", f"anchored, then {name}", message, partial(anchored, change)
        )
    yield refused(
        "conduct",
        "ledger verify",
        "the log of another witness",
        "not signed with the given witness key",
        partial(anchored, lambda _: None, witness=key.public_key),
    )

    def witnessed(change: Callable[[Path], object]) -> object:
        with some_ledger(key=key) as path:
            log = path.with_name("heads.log")
            with Ledger.open(path, read_only=True) as ledger:
                ledger.anchor(log, key=witness)
            change(path)
            with Ledger.open(path, read_only=True) as ledger:
                return ledger.anchor(log, key=witness)

    def longer(path: Path) -> None:
        continued(path)
        append_to(path, 4, key)
        append_to(path, 5, key)

    takes_back = {
        "is cut": (cut, "heads of a ledger must go on"),
        "was continued from a backup": (continued, "heads of a ledger must go on"),
        "was continued from a backup, and is longer": (longer, "must go on from its anchors"),
    }
    for name, (change, message) in takes_back.items():
        yield refused(
            "conduct",
            "ledger witness",
            f"the head of a ledger that {name}",
            message,
            partial(witnessed, change),
        )

    def built_upon(other: SigningKey | None) -> object:
        with some_ledger(key=key) as path:
            with intruder(path, key=other) as ledger:
                ledger.start_run({}, "1")
            append_to(path, 4, key)
            return "signed"

    for name, other in {"without a key": None, "with another key": witness}.items():
        yield refused(
            "conduct",
            "ledger",
            f"somebody added a run {name}; the operator goes on",
            "the newest entry must not be built upon",
            partial(built_upon, other),
        )

    def unsigned() -> object:
        with some_ledger(key=key) as path, Ledger.open(path) as ledger:
            return ledger.start_run({}, "1")

    yield refused(
        "input",
        "ledger",
        "a signed ledger is continued without a key",
        "must be continued with a key",
        unsigned,
    )

    def over_a_log_of_writing(ending: str) -> object:
        with some_ledger() as path, Ledger.open(path):
            try:
                with whole_file(path.with_name(path.name + ending)) as other:
                    other.write_text("{}")
            except FileExistsError as error:
                raise LedgerError(str(error)) from None
            return "it is gone"

    for ending in ("-wal", "-shm", "-journal", ".lock"):
        yield refused(
            "conduct",
            "ledger",
            f"another file is written over its {ending}",
            "a file of the ledger run.ledger",
            partial(over_a_log_of_writing, ending),
        )

    def overwritten() -> object:
        with some_ledger() as path:
            log = path.with_name("heads.log")
            with Ledger.open(path, read_only=True) as ledger:
                ledger.anchor(log)
            before = log.read_bytes()
            try:
                with whole_file(log) as other:
                    other.write_text("{}")
            except FileExistsError as error:
                assert log.read_bytes() == before, "the log is gone"
                raise LedgerError(str(error)) from None
            return "the log is gone"

    yield refused(
        "conduct",
        "ledger",
        "another file is written over a log of heads",
        "nothing may take the place",
        overwritten,
    )

    def deep() -> object:
        config: object = 1
        for _ in range(200):
            config = [config]
        with some_ledger() as path, Ledger.open(path) as ledger:
            return ledger.start_run({"a": config}, "1")

    yield refused("input", "ledger", "a configuration 200 levels deep", "at most 100 deep", deep)

    def behind() -> object:
        with some_ledger(key=key) as path:
            log, old = path.with_name("heads.log"), path.with_name("old.ledger")
            shutil.copy(path, old)
            append_to(path, 4, key)
            with Ledger.open(path, read_only=True) as ledger:
                ledger.anchor(log)
            return Ledger.open(old, key=key, anchor=log)

    yield refused(
        "conduct",
        "ledger",
        "a backup is written to, behind its anchor",
        "must go on from its anchors",
        behind,
    )

    def head(content: bytes) -> object:
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "head.json").write_bytes(content)
            return read_head(Path(name) / "head.json")

    with some_ledger() as path, Ledger.open(path, read_only=True) as ledger:
        good = to_json(ledger.signed_head()).encode()
    contents = {
        "empty": b"",
        "not JSON": b"{",
        "a list": b"[]",
        "deep": b"[" * 100_000,
        "half a head": b'{"ledger": ""}',
        "bytes": bytes(range(256)),
        "a count below zero": good.replace(b'"rounds": 3', b'"rounds": -3'),
        "a count that is true": good.replace(b'"runs": 1', b'"runs": true'),
        "a hash that is short": good.replace(b'"hash": "', b'"hash": "0'),
    }
    for name, content in contents.items():
        yield refused(
            "input", "ledger witness", f"a head that is {name}", "", partial(head, content)
        )
