"""The ledger as it grows: a round should cost the same at the end as at the start.

``python -m checks.speed.ledger`` writes docs/results/ledger.md. Both clocks are shown: processor
time leaves out other work on the machine, but also the wait for the disk; wall time has both in it.
What is promised of a large ledger (`PROMISED`) is measured as its user meets it: a command in a
process of its own, from its start to its end.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from checks import ROOT
from checks.speed.browser import opened
from checks.speed.timing import machine
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.flags import Flag, Kind
from fedmerit.ledger import Ledger, SigningKey
from fedmerit.types import ClientRecord, RoundRecord

CLIENTS = 1000
SIZES = (125, 250, 500, 1000)
EDGE = 50  # rounds at either end that are compared
# Processor seconds and MB of a million rows, by command.
PROMISED = {"ledger verify": (10, 300), "report": (20, 300)}
_COMMAND = (sys.executable, "-c", "from fedmerit.cli import main; main()")


def make_round(number: int) -> RoundRecord:
    clients = tuple(
        ClientRecord(
            client=f"client-{index:04d}",
            score=0.1 + index * 1e-5 + number * 1e-7,
            weight=1 / CLIENTS,
            p_value=1 / (2 + index),
            epsilon=0.001,
            flag=Flag(Kind.INDEPENDENT) if index % 50 == 0 else None,
            reward=100 + index,
            num_examples=600,
        )
        for index in range(CLIENTS)
    )
    return RoundRecord(number, clients, metrics={"accuracy": 0.9, "loss": 0.3})


def measure() -> list[str]:
    """Return the lines of this part of the report."""
    with tempfile.TemporaryDirectory() as folder:
        path, key = Path(folder) / "run.ledger", SigningKey.generate()
        appended, verified, bytes_used = _grow(path, key)
        large = _large(path, key)
        plain = np.median([_plain_insert(Path(folder) / f"{i}.db") for i in range(9)], axis=0)
    first, last = np.median(appended[:EDGE], axis=0), np.median(appended[-EDGE:], axis=0)
    lines = [
        f"Up to {SIZES[-1]:,} rounds of {CLIENTS:,} clients.",
        "",
        "| rounds | verify: processor time | verify: wall time | bytes per client, round |",
        "|---:|---:|---:|---:|",
    ]
    for size in SIZES:
        processor, wall = verified[size] / verified[SIZES[0]]
        lines.append(
            f"| {size / SIZES[0]:.0f} | {processor:.2f} | {wall:.2f} "
            f"| {bytes_used[size] / (size * CLIENTS):.1f} |"
        )
    growth, cost = last / first, last / plain
    lines += [
        "",
        f"Appending one of the last {EDGE} rounds takes {growth[0]:.2f} times the processor time",
        f"of one of the first {EDGE}, and {growth[1]:.2f} times the wall time (medians). It is",
        f"{cost[0]:.1f} and {cost[1]:.1f} times what it takes to insert the same numbers into a",
        "bare table in one durable transaction, without chain, checks or keys.",
        "",
        f"In this run, processor and wall time: {1000 * last[0]:.1f} and {1000 * last[1]:.1f} ms",
        f"to append a round of {CLIENTS:,} clients; {verified[SIZES[-1]][0]:.1f} and "
        f"{verified[SIZES[-1]][1]:.1f} s to verify {SIZES[-1] * CLIENTS:,} rows.",
        "",
        *large,
    ]
    return lines


def _large(path: Path, key: SigningKey) -> list[str]:
    """Return the lines about the commands that read the whole ledger."""
    page = path.with_suffix(".html")
    arguments = {
        "ledger verify": (path, "--public-key", key.public_key.hex()),
        "report": (path, "--out", page),
    }
    lines = [
        f"## {SIZES[-1]:,} rounds of {CLIENTS:,} clients, by command",
        "",
        "| command | processor s | wall s | peak MB | promised, s and MB |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, given in arguments.items():
        processor, wall, megabytes = _command(*name.split(), *given)
        seconds, most = PROMISED[name]
        lines.append(
            f"| `fedmerit {name}` | {processor:.1f} | {wall:.1f} | {megabytes:.0f} "
            f"| {seconds}, {most} |"
        )
    size = page.stat().st_size / 2**20
    return [*lines, "", f"The page has {size:.1f} MB; {opened(page)}."]


def _command(*arguments: object) -> tuple[float, float, float]:
    """Run a command; return its processor time, wall time and peak of memory in MB."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*_COMMAND, *map(str, arguments)], cwd=ROOT, stdout=said, stderr=said
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        assert process.returncode == 0, said.read().decode()
    wall = time.perf_counter() - begin
    return used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024


def _clocks() -> np.ndarray:
    return np.array([time.process_time(), time.perf_counter()])


def _grow(path: Path, key: SigningKey) -> tuple[np.ndarray, dict[int, np.ndarray], dict[int, int]]:
    appended, verified, bytes_used = [], {}, {}
    with Ledger.open(path, key=key) as ledger:
        ledger.start_run({"clients": CLIENTS}, "benchmark")
        for number in range(1, SIZES[-1] + 1):
            record = make_round(number)
            begin = _clocks()
            ledger.append(record)
            appended.append(_clocks() - begin)
            if number in SIZES:
                samples = []
                for _ in range(3):
                    begin = _clocks()
                    ledger.verify().require()
                    samples.append(_clocks() - begin)
                verified[number] = np.median(samples, axis=0)
                bytes_used[number] = path.stat().st_size
    return np.array(appended), verified, bytes_used


def _plain_insert(path: Path) -> np.ndarray:
    """Time the least that a durable record of the same numbers could cost."""
    record = make_round(1)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE scores (client, score, weight, p_value, epsilon, reward)")
    begin = _clocks()
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?)",
        [(c.client, c.score, c.weight, c.p_value, c.epsilon, c.reward) for c in record.clients],
    )
    connection.execute("COMMIT")
    seconds = _clocks() - begin
    connection.close()
    return seconds


def main() -> None:
    lines = [
        "# The ledger as it grows",
        "",
        f"Written by `python -m checks.speed.ledger` on {machine()}. Ratios hold inside one run.",
        "",
        *measure(),
        "",
    ]
    target = ROOT / "docs" / "results" / "ledger.md"
    write_page(target, "\n".join(lines), Sources.of(main, Ledger))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
