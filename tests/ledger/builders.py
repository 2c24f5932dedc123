"""Small ledgers to test with."""

from pathlib import Path

from fedmerit.flags import Flag, Kind
from fedmerit.ledger import Ledger
from fedmerit.types import ClientRecord, Rejection, RoundRecord

FLAGS = {
    1: Flag(Kind.OTHER, "no agreement"),
    2: Flag(Kind.COPY, twin="client 1"),
    3: Flag(Kind.UNPAID, "below the minimum"),
}


def make_record(number: int, clients: int = 3) -> RoundRecord:
    """Build a record that uses every field."""
    members = tuple(
        ClientRecord(
            client=f"client {index}",
            score=0.1 * index + 0.01 * number,
            weight=1 / clients,
            p_value=0.5 if index else None,
            epsilon=0.001 if index else None,
            flag=FLAGS.get(index),
            reward=100 * index if index else None,
            num_examples=60 + index if index else None,
            behaviour="honest" if index else None,
            label="Ward 7" if index else None,
        )
        for index in range(clients)
    )
    return RoundRecord(
        round=number,
        clients=members,
        rejected=(Rejection("client x", "NaN in update", Kind.ABSENT),),
        metrics={"accuracy": 0.9, "loss": 0.3 + number},
        agreement=bytes((number + pair) % 256 for pair in range(clients * (clients - 1) // 2)),
    )


def make_ledger(path: Path, rounds: int = 3, **options) -> str:
    """Write a ledger with one run; return its head."""
    with Ledger.open(path, **options) as ledger:
        ledger.start_run({"rule": "positive", "budget": 300}, "0.1.0")
        for number in range(1, rounds + 1):
            ledger.append(make_record(number))
        head = ledger.head
    assert head is not None
    return head
