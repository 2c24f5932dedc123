"""Writing a run that may be interrupted and continued: no round twice, none left out."""

from collections.abc import Mapping
from typing import Any

from fedmerit.errors import LedgerError
from fedmerit.ledger.store import Ledger
from fedmerit.types import RoundRecord

_FINGERPRINT = "fingerprint"


class RunRecorder:
    """A callable that engines can hand their records to.

    Give it a record before the engine takes note that the round is done: a round that comes again
    after an interruption is then found to be the same and not written twice.

    Parameters
    ----------
    ledger : Ledger
        Open for writing.
    config : mapping
        Settings of the run, plain values, to be recorded with it.
    software_version : str
    fingerprint : str
        What tells this run from all others; a ledger holds it once.
    resume : bool
        Whether a run with this fingerprint may be in the ledger already.

    Raises
    ------
    LedgerError
        The run is recorded already and not to be resumed, or was signed with another key.
    """

    def __init__(
        self,
        ledger: Ledger,
        config: Mapping[str, Any],
        software_version: str,
        *,
        fingerprint: str,
        resume: bool,
    ) -> None:
        self._ledger = ledger
        self._config = {**config, _FINGERPRINT: fingerprint}
        self._software_version = software_version
        self._started, self._rounds = False, 0
        for run in ledger.runs():
            if run.config.get(_FINGERPRINT) != fingerprint:
                continue
            if not resume:
                raise LedgerError(
                    f"a ledger holds a run once, {ledger.path} has this one as run {run.run}: "
                    "resume it, or choose another ledger"
                )
            ledger.resume_run(run.run)
            self._started, self._rounds = True, run.rounds

    def __call__(self, record: RoundRecord) -> None:
        """Write a round, which is on the disk when this returns."""
        if record.round > self._rounds + 1:
            raise LedgerError(
                f"{self._ledger.path} must hold rounds 1 to {record.round - 1} of a run "
                f"before round {record.round}, got {self._rounds} of them"
            )
        if not self._started:
            self._ledger.start_run(self._config, self._software_version)
            self._started = True
        self._ledger.append(record)
        self._rounds = max(self._rounds, record.round)

    def catch_up(self, record: RoundRecord) -> None:
        """Write the newest round of a saved state, should the ledger have missed it."""
        if record.round < self._rounds:
            raise LedgerError(
                f"{self._ledger.path} must not be ahead of the state that continues it: the state "
                f"ends with round {record.round}, the ledger with round {self._rounds}; go on "
                "with the newest state (state=... keeps one after every round), or start a new "
                "run with this state's model"
            )
        if record.round > self._rounds:
            self(record)
