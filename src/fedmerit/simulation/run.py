"""Run a federation to its end, from the start or from where it was interrupted."""

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from fedmerit.disk.lock import WriterLock
from fedmerit.errors import CheckpointError
from fedmerit.simulation.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
    storing,
)
from fedmerit.simulation.federation import Federation, FederationState
from fedmerit.simulation.results import ResultFiles
from fedmerit.types import RoundRecord

CHECKPOINT = "checkpoint.state"
CHECKPOINT_SECONDS = 10.0
RoundCallback = Callable[[RoundRecord], None]


def run(
    federation: Federation,
    *,
    folder: Path | None = None,
    resume: bool = False,
    on_round: RoundCallback | None = None,
    keep: RoundCallback | None = None,
) -> FederationState:
    """Run the rounds that are left and return the last state.

    Parameters
    ----------
    federation : Federation
    folder : Path, optional
        Where results and the checkpoint go. Interrupted at any moment and resumed, a run leaves the
        same bytes in its result files as one that was not.
    resume : bool
        Continue the run in `folder`, if there is one.
    on_round : callable, optional
        Gets the record of every round as it ends, after it is on disk.
    keep : callable, optional
        Gets the record before the checkpoint knows of the round, so that no round is missed. A run
        that is interrupted in between does the round again and hands over the same record again.
    """
    state = federation.start()
    keeper = None if folder is None else _Keeper(folder, federation)
    with ExitStack() as closing:
        if keeper is not None:
            closing.callback(keeper.lock().release)
            state = keeper.open(resume=resume) or state
        while state.round < federation.config.rounds:
            state, record = federation.step(state)
            if keep is not None:
                keep(record)
            if keeper is not None:
                keeper.save(state, record)
            if on_round is not None:
                on_round(record)
    return state


class _Keeper:
    """Result files first, checkpoint second: what the checkpoint does not know of is cut off.

    A checkpoint may be large (with the merit score it holds every client's last report), so it is
    not written after every round: a run that is cut off repeats the rounds since the last one.
    """

    def __init__(self, folder: Path, federation: Federation) -> None:
        self._folder, self._fingerprint = folder, federation.fingerprint
        self._last_round = federation.config.rounds
        self._metric = federation.task.metric
        self._files = ResultFiles(folder)
        self._saved = -math.inf

    def lock(self) -> WriterLock:
        """Make the folder and keep every other run out of it."""
        with storing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        return WriterLock(self._folder, busy=CheckpointError, failed=CheckpointError)

    def open(self, *, resume: bool) -> FederationState | None:
        """Prepare the folder; return the state to continue from, if there is one."""
        path = self._folder / CHECKPOINT
        if path.is_file():
            if not resume:
                raise CheckpointError(
                    f"{self._folder} already holds a run: continue it with --resume, "
                    "or choose another folder"
                )
            checkpoint = load_checkpoint(path, self._fingerprint)
            with storing(self._folder):
                self._files.cut(checkpoint.sizes)
            return checkpoint.state
        with storing(self._folder):
            self._files.create(self._metric)
        return None

    def save(self, state: FederationState, record: RoundRecord) -> None:
        """Keep a finished round."""
        with storing(self._folder):
            sizes = self._files.append(record)
        due = time.monotonic() - self._saved >= CHECKPOINT_SECONDS
        if due or state.round == self._last_round:
            checkpoint = Checkpoint(state, self._fingerprint, sizes)
            save_checkpoint(self._folder / CHECKPOINT, checkpoint)
            self._saved = time.monotonic()
