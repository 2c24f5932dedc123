"""``python -m checks.kill``: ten minutes of writing, paying and kill -9, and a page of results."""

import argparse
import json
import os
import random
import signal
import sqlite3
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from checks import ROOT
from checks.kill.worker import Place, as_plain, pay, record, spawn
from checks.speed.timing import machine
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.ledger import Ledger, SigningKey

SECONDS_PER_LEDGER = 15.0  # then a new one, so that verifying does not come to be all there is
LONGEST_LIFE = 1.5
PAGE = ROOT / "docs" / "results" / "kill.md"


@dataclass
class Tally:
    """What happened, over all ledgers."""

    kills: int = 0
    ledgers: int = 0
    rounds: int = 0
    reported: int = 0
    lists: int = 0
    transfers: int = 0
    money: int = 0
    problems: list[str] = field(default_factory=list)


def one_ledger(folder: Path, seconds: float, rng: random.Random, tally: Tally) -> None:
    """Kill two workers on one ledger again and again, then look at what they left."""
    place = Place(folder)
    place.create()
    end = time.monotonic() + seconds
    workers = [spawn(place, rng.randrange(2**32)) for _ in range(2)]
    while time.monotonic() < end:
        time.sleep(rng.uniform(0.02, LONGEST_LIFE))
        at = rng.randrange(2)
        tally.kills += _kill(workers[at])
        workers[at] = spawn(place, rng.randrange(2**32))
    for worker in workers:
        tally.kills += _kill(worker)
    pay(place, SigningKey.load(place.key))
    check(place, tally)


def _kill(worker: int) -> int:
    os.kill(worker, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    return int(os.WIFSIGNALED(status))


def check(place: Place, tally: Tally) -> None:
    """Compare ledger, lists and bank with each other and with what is known."""
    errors = place.lists.parent / "errors.txt"
    problems = errors.read_text().splitlines() if errors.exists() else []
    key = SigningKey.load(place.key)
    with Ledger.open(place.ledger, read_only=True) as ledger:
        verified = ledger.verify(public_key=key.public_key)
        if not verified.ok:
            problems.append(f"the ledger does not verify: {verified.problem}")
        rounds = list(ledger.rounds())
        lists = [json.loads(path.read_bytes()) for path in place.made()]
        after = None
        for number, content in enumerate(lists, 1):
            again = ledger.pay_list(after=after, until=content["head"])
            if as_plain(again) != content:
                problems.append(f"list {number} cannot be made again")
            after = content["head"]
    if rounds != [record(number) for number in range(1, len(rounds) + 1)]:
        problems.append("rounds are missing, twice or changed")
    reported = [int(line) for line in place.reported.read_text().split("\n") if line]
    if reported and max(reported) > len(rounds):
        problems.append(f"round {max(reported)} was reported as written and is not there")
    if len(set(reported)) != len(reported):
        problems.append("a round was reported twice")
    owed: Counter[str] = Counter()
    for one in rounds:
        for client in one.clients:
            owed[client.client] += client.reward or 0
    with closing(sqlite3.connect(place.bank)) as bank:
        sent = bank.execute("SELECT client, amount FROM sent").fetchall()
    paid: Counter[str] = Counter()
    for client, amount in sent:
        paid[client] += amount
    if +owed != +paid:
        problems.append(f"{sum(owed.values())} is owed and {sum(paid.values())} was sent")
    tally.problems += problems
    tally.ledgers += 1
    tally.rounds += len(rounds)
    tally.reported += len(reported)
    tally.lists += len(lists)
    tally.transfers += len(sent)
    tally.money += sum(paid.values())


def page(tally: Tally, minutes: float, seed: int) -> str:
    """Return the page of results."""
    verdict = "nothing" if not tally.problems else f"{len(tally.problems)} things"
    lines = [
        "# Two processes, kill -9",
        "",
        f"Written by `python -m checks.kill --minutes {minutes:g} --seed {seed}` on {machine()}.",
        "",
        "Two processes share a signed ledger. Each writes rounds or pays what is owed, at random,",
        "and is killed with `kill -9` at a random moment, then replaced. A pay list is written",
        "down before its transfers are made; after a kill the transfers of the last list are made",
        "again, under the same references. At the end of every ledger all is compared: rounds with",
        "what is known of them and with what was reported as written, every list with one made",
        "again from the ledger, what the bank sent with what the rounds owe.",
        "",
        "| | |",
        "|---|---:|",
        f"| minutes | {minutes:g} |",
        f"| ledgers | {tally.ledgers} |",
        f"| kills | {tally.kills:,} |",
        f"| rounds | {tally.rounds:,} |",
        f"| of them reported as written before a kill | {tally.reported:,} |",
        f"| pay lists | {tally.lists:,} |",
        f"| transfers | {tally.transfers:,} |",
        f"| money, owed and sent | {tally.money:,} |",
        f"| lost, paid twice, or not to be made again | {verdict} |",
        "",
    ]
    return "\n".join([*lines, *(f"- {problem}" for problem in tally.problems)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, tally = random.Random(options.seed), Tally()
    left = options.minutes * 60
    with tempfile.TemporaryDirectory() as name:
        while left > 0:
            seconds = min(left, SECONDS_PER_LEDGER)
            one_ledger(Path(name) / str(tally.ledgers), seconds, rng, tally)
            left -= seconds
            print(f"{tally.ledgers}: {tally.rounds} rounds, {tally.kills} kills, {tally.problems}")
    text = page(tally, options.minutes, options.seed)
    if options.minutes >= 10:
        write_page(PAGE, text, Sources.of(main, one_ledger, Ledger))
    print(text)
    if tally.problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
