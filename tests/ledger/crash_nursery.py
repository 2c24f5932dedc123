"""Kill writers at random moments; run as a script, in a process of its own.

Each writer is a fork, so that it starts at once, and says ``written N`` after each round. After a
random number of rounds and a random delay it is killed; the ledger is then opened, verified,
compared with what was reported, and continued by the next writer.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from fedmerit.ledger import Ledger
from tests.ledger.builders import make_record

KILLS_PER_LEDGER = 10
MOST_ROUNDS = 6
LONGEST_DELAY = 0.02  # seconds: a few times what opening or a round takes


def write_until_killed(path: Path, pipe: int) -> None:
    with Ledger.open(path) as ledger:
        if ledger.runs():
            ledger.resume_run(1)
        else:
            ledger.start_run({"kind": "crash"}, "1")
        number = 1 + max((record.round for record in ledger.rounds(1)), default=0)
        while True:
            ledger.append(make_record(number, clients=1 + number % 40))
            os.write(pipe, b"written %d\n" % number)
            number += 1


def kill_one(path: Path, rounds: int, delay: float) -> list[int]:
    """Kill a writer `delay` seconds after it reported `rounds`; return all that it reported."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        try:
            write_until_killed(path, write_end)
        finally:
            os._exit(1)  # only a failure comes here
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        lines = [pipe.readline() for _ in range(rounds)]
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        lines += pipe.readlines()
    reported = [int(line.split()[1]) for line in lines if line.endswith("\n")]
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"a writer ended by itself: {status}")
    return reported


def main(folder: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    reported_total, problems = 0, []
    for kill in range(kills):
        path = folder / f"{kill // KILLS_PER_LEDGER}.ledger"
        reported = kill_one(path, rng.randrange(MOST_ROUNDS), rng.uniform(0, LONGEST_DELAY))
        reported_total += len(reported)
        with Ledger.open(path) as ledger:
            found = ledger.verify()
            stored = {record.round: record for record in ledger.rounds()}
            if not found.ok:
                problems.append(f"kill {kill}: {found.problem}")
            if sorted(stored) != list(range(1, len(stored) + 1)):
                problems.append(f"kill {kill}: gaps in {sorted(stored)}")
            for number in reported:
                if stored.get(number) != make_record(number, clients=1 + number % 40):
                    problems.append(f"kill {kill}: round {number} was reported, but is not there")
    print(json.dumps({"kills": kills, "reported": reported_total, "problems": problems}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
