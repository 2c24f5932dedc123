"""Follow a run of a deployment through the ledger it writes."""

import time
from collections.abc import Iterator
from pathlib import Path

from fedmerit.errors import LedgerError
from fedmerit.flower.deployment import Deployment, DeploymentError
from fedmerit.ledger import Ledger
from fedmerit.types import RoundRecord

_POLL_SECONDS = 0.5
# Asking Flower for a run's status starts a process, which takes seconds of a processor.
_STATUS_SECONDS = 20.0


def follow(
    deployment: Deployment, run: int, ledger: Path, rounds: int, *, seconds: float
) -> Iterator[RoundRecord]:
    """Yield the rounds of a run as they are recorded, until all are there.

    Raises
    ------
    DeploymentError
        The run ended before, or took longer than `seconds`.
    """
    seen, deadline = 0, time.monotonic() + seconds
    ask = time.monotonic() + _STATUS_SECONDS
    ended = ""
    while True:
        for record in _recorded(ledger)[seen:]:
            seen += 1
            yield record
        if seen >= rounds:
            return
        now = time.monotonic()
        if ended or now > deadline:
            raise DeploymentError(
                f"the run must record {rounds} rounds, got {seen} before it "
                f"{ended or f'had taken {seconds:.0f} s'}; "
                f"{_last_lines(deployment.log_file('superlink'))}"
            )
        if now > ask:
            status = deployment.status(run)
            # Once more around the loop: rounds may have been written just before the end.
            ended = f"ended as {status}" if status.startswith("finished") else ""
            ask = time.monotonic() + _STATUS_SECONDS
        time.sleep(_POLL_SECONDS)


def _recorded(ledger: Path) -> list[RoundRecord]:
    if not ledger.is_file():
        return []
    try:
        with Ledger.open(ledger, read_only=True) as opened:
            return list(opened.rounds())
    except LedgerError:
        return []  # it is just being made


def _last_lines(log: Path) -> str:
    """Return the end of what went wrong on the server, or else of all it said."""
    lines = log.read_text(errors="replace").splitlines()
    return " | ".join(([line for line in lines if "Error" in line] or lines)[-5:])
