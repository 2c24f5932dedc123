"""Odd surroundings: no home, no terminal, other languages and time zones, pipes that close."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from checks.faults.base import Fault, survived
from checks.faults.ledger import record
from fedmerit.ledger import Ledger

COMMAND = (sys.executable, "-c", "from fedmerit.cli import main; main()")
SURROUNDINGS: dict[str, dict[str, str | None]] = {
    "locale C": {"LC_ALL": "C", "LANG": None},
    "locale that does not exist": {"LC_ALL": "xx_YY.nonsense"},
    "ASCII output": {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
    "time zone far ahead": {"TZ": "Pacific/Kiritimati"},
    "time zone that does not exist": {"TZ": "Mars/Olympus"},
    "no HOME": {"HOME": None, "XDG_CACHE_HOME": None},
    "HOME that does not exist": {"HOME": "/nonexistent/home"},
    "terminal of one column": {"COLUMNS": "1", "TERM": "dumb"},
}


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    for name, changes in SURROUNDINGS.items():
        yield survived(
            "process", "ledger", name, "the same payouts as ever", partial(_paid, changes)
        )
    yield survived(
        "process", "simulate", "no terminal, no HOME, locale C, no input",
        "runs, prints its table, draws no progress bar", _no_terminal,
    )  # fmt: skip
    yield survived(
        "process", "ledger", "standard output closed by the reader", "no traceback", _closed_pipe
    )


def _environment(changes: dict[str, str | None]) -> dict[str, str]:
    merged = {**os.environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _call(
    *arguments: object, changes: dict[str, str | None] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        start_new_session=True,
        env=_environment(changes or {}),
    )


def _written(folder: str) -> Path:
    path = Path(folder) / "run.ledger"
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        ledger.append(record(1, clients=5, name="klinik-ä-医院-"))
    return path


def _paid(changes: dict[str, str | None]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = _written(folder)
        for extra in ((), ("--json",)):
            done = _call("ledger", "pay", path, *extra, changes=changes)
            assert "Traceback" not in done.stderr, done.stderr.strip().splitlines()[-1]
            assert done.returncode == 0, done.stderr
            # A narrow terminal breaks lines anywhere.
            assert "150" in "".join(done.stdout.split()), done.stdout
    return "total 150 to 5 clients"


def _no_terminal() -> str:
    changes: dict[str, str | None] = {"HOME": None, "LC_ALL": "C", "TERM": None}
    done = _call(
        *("simulate", "--dataset", "digits", "--users", 4, "--per-round", 2, "--hidden", 4),
        *("--epochs", 1, "--rounds", 1),
        changes=changes,
    )
    assert "Traceback" not in done.stderr, done.stderr.strip().splitlines()[-1]
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", f"stderr: {done.stderr!r}"
    assert "\x1b" not in done.stdout, "colours without a terminal"
    return done.stdout.strip().splitlines()[-1]


def _closed_pipe() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = _written(folder)
        arguments = [*COMMAND, "ledger", "show", str(path), "--json"]
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run(
            arguments, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
        )
        os.close(write_end)
    assert "Traceback" not in done.stderr, done.stderr.strip().splitlines()[-1]
    return f"ended with {done.returncode}, {done.stderr.strip() or 'silently'}"
