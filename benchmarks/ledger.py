"""The ledger as it grows: a round should cost the same at the end as at the start.

Run alone with ``python -m benchmarks.ledger``.
"""

import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.timing import machine
from fedmerit.ledger import Ledger
from fedmerit.types import ClientRecord, RoundRecord

CLIENTS = 1000
SIZES = (125, 250, 500, 1000)
EDGE = 50  # rounds at either end that are compared


def make_round(number: int) -> RoundRecord:
    clients = tuple(
        ClientRecord(
            client=f"client-{index:04d}",
            score=0.1 + index * 1e-5 + number * 1e-7,
            weight=1 / CLIENTS,
            p_value=1 / (2 + index),
            epsilon=0.001,
            flagged=index % 50 == 0,
            reason="no agreement with any peer" if index % 50 == 0 else "",
            reward=100 + index,
            num_examples=600,
        )
        for index in range(CLIENTS)
    )
    return RoundRecord(number, clients, metrics={"accuracy": 0.9, "loss": 0.3})


def measure() -> list[str]:
    """Return the lines of this part of the report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.ledger"
        appended, verified, bytes_used = _grow(path)
        plain = statistics.median(_plain_insert(Path(folder) / f"{i}.db") for i in range(9))
    first = statistics.median(appended[:EDGE])
    last = statistics.median(appended[-EDGE:])
    lines = [
        f"## Ledger: up to {SIZES[-1]:,} rounds x {CLIENTS:,} clients",
        "",
        "| rounds | rounds, relative | time to verify, relative | bytes per client and round |",
        "|---:|---:|---:|---:|",
    ]
    for size in SIZES:
        lines.append(
            f"| {size:,} | {size / SIZES[0]:.2f} | {verified[size] / verified[SIZES[0]]:.2f} "
            f"| {bytes_used[size] / (size * CLIENTS):.1f} |"
        )
    lines += [
        "",
        f"Appending one of the last {EDGE} rounds takes {last / first:.2f} times as long as one of",
        f"the first {EDGE} (medians), and {last / plain:.1f} times as long as inserting the same",
        "numbers into a bare table in one durable transaction, without chain, checks or keys.",
        f"In this run: {1000 * last:.1f} ms to append a round of {CLIENTS:,} clients, "
        f"{verified[SIZES[-1]]:.1f} s to verify {SIZES[-1] * CLIENTS:,} rows.",
    ]
    return lines


def _grow(path: Path) -> tuple[list[float], dict[int, float], dict[int, int]]:
    appended, verified, bytes_used = [], {}, {}
    with Ledger.open(path) as ledger:
        ledger.start_run({"clients": CLIENTS}, "benchmark")
        for number in range(1, SIZES[-1] + 1):
            record = make_round(number)
            begin = time.perf_counter()
            ledger.append(record)
            appended.append(time.perf_counter() - begin)
            if number in SIZES:
                samples = []
                for _ in range(3 if number < SIZES[-1] else 2):
                    begin = time.perf_counter()
                    ledger.verify().require()
                    samples.append(time.perf_counter() - begin)
                verified[number] = min(samples)
                bytes_used[number] = path.stat().st_size
    return appended, verified, bytes_used


def _plain_insert(path: Path) -> float:
    """Time the least that a durable record of the same numbers could cost."""
    record = make_round(1)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE scores (client, score, weight, p_value, epsilon, reward)")
    begin = time.perf_counter()
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?)",
        [(c.client, c.score, c.weight, c.p_value, c.epsilon, c.reward) for c in record.clients],
    )
    connection.execute("COMMIT")
    seconds = time.perf_counter() - begin
    connection.close()
    return seconds


if __name__ == "__main__":
    print(f"On {machine()}.\n")
    print("\n".join(measure()))
