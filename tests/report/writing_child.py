"""A server of a federation that records a round for every line it reads, until it is killed."""

import sys

from fedmerit.ledger import Ledger
from tests.report.builders import make_records


def main(path: str, clients: int) -> None:
    records = make_records(clients, 30)
    with Ledger.open(path) as ledger:
        if ledger.runs():
            ledger.resume_run(1)
        else:
            ledger.start_run({"seed": 1}, "0.2.0")
        written = sum(1 for _ in ledger.rounds(1))
        print("ready", flush=True)
        for _ in sys.stdin:
            ledger.append(records[written])
            written += 1
            print(written, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
