"""The ledger: an append-only SQLite file of what was scored and paid, which can prove itself.

::

    with Ledger.open("run.ledger") as ledger:
        ledger.start_run({"rule": "positive", "budget": 10_000}, fedmerit.__version__)
        simulate(..., keep=ledger.append)

What it promises, and how far:

- A round is one transaction. When `append` returns, the round is on the disk and survives the
  death of the process and, as far as the disk keeps its word, of the machine.
- Entries are chained by SHA-256 over canonical bytes (:mod:`fedmerit.ledger.proof.encoding`):
  `verify` names the first entry whose stored content is not what was hashed.
- Whoever can write the file can also rewrite the whole chain: sign the entries with a key that is
  not on the same machine's disk. Whoever has the key, too, or an older copy, can cut off the newest
  rounds: keep heads elsewhere (:mod:`fedmerit.ledger.proof.heads`) and `verify` against them.
- A pay list (:mod:`fedmerit.ledger.paylist`) is made from what was verified, as of one moment.
- The rows of a round are under a tree (:mod:`fedmerit.ledger.proof.merkle`): a client can be shown
  its own rows, and check them, without those of others (:mod:`fedmerit.ledger.proof.statement`).
- One process writes, any number read, also while it writes.
- Time is information, not order: the clock may go backwards. The order is that of the chain.

Model updates are never stored, nor are wall-clock durations: those are not part of a result.
"""

from fedmerit.ledger.file.reading import RunInfo, StoredRound
from fedmerit.ledger.paylist import PayList
from fedmerit.ledger.proof.heads import Anchor, Head, append_head, read_head, read_log
from fedmerit.ledger.proof.signing import SigningKey
from fedmerit.ledger.proof.statement_check import StatedRound, StatementCheck, check_statement
from fedmerit.ledger.proof.verification import Verification
from fedmerit.ledger.recording import RunRecorder
from fedmerit.ledger.store import Ledger
from fedmerit.ledger.summary import ClientSummary, Payout

__all__ = [
    "Anchor",
    "ClientSummary",
    "Head",
    "Ledger",
    "PayList",
    "Payout",
    "RunInfo",
    "RunRecorder",
    "SigningKey",
    "StatedRound",
    "StatementCheck",
    "StoredRound",
    "Verification",
    "append_head",
    "check_statement",
    "read_head",
    "read_log",
]
