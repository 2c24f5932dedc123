"""A run on disk: written whole or not at all, never pickled, continued only by the same run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import CheckpointError
from fedmerit.server.state import read_state, state_arrays, state_from, write_state
from fedmerit.simulation.federation import FederationState

_UPDATES = "global updates"
_OWN = "own "  # and the client: its first reports


@dataclass(frozen=True)
class Checkpoint:
    """A state, the fingerprint of its federation, and how long the result files were then."""

    state: FederationState
    fingerprint: str
    sizes: tuple[int, ...] = ()


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write `checkpoint`; a crash leaves the one before it."""
    arrays, meta = state_arrays(checkpoint.state.server)
    own = checkpoint.state.own
    for client, past in own.items():
        arrays[f"{_OWN}{client}"] = np.stack(past)
    if checkpoint.state.updates:
        arrays[_UPDATES] = np.stack(checkpoint.state.updates)
    run = {
        "own": list(own),
        "fingerprint": checkpoint.fingerprint,
        "norms": list(checkpoint.state.norms),
        "sizes": list(checkpoint.sizes),
    }
    write_state(path, arrays, {**meta, "simulation": run})


def load_checkpoint(path: Path, fingerprint: str) -> Checkpoint:
    """Read a checkpoint that must belong to the run with this `fingerprint`."""
    arrays, meta = read_state(path)
    if meta["version"] == 1:
        raise CheckpointError(f"{path} was written by an older fedmerit: start the run again")
    try:
        run = meta["simulation"]
        checkpoint = Checkpoint(
            FederationState(
                state_from(arrays, meta),
                tuple(_floats(arrays[_UPDATES])) if _UPDATES in arrays else (),
                tuple(run["norms"]),
                {client: tuple(_floats(arrays[f"{_OWN}{client}"])) for client in run["own"]},
            ),
            run["fingerprint"],
            tuple(run["sizes"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from None
    if checkpoint.fingerprint != fingerprint:
        raise CheckpointError(
            f"{path} belongs to a run with other settings, data or code for them "
            f"({str(checkpoint.fingerprint)[:12]}, this run is {fingerprint[:12]}): "
            "continue it with the settings it was started with, or choose another folder"
        )
    return checkpoint


def _floats(array: NDArray[np.generic]) -> NDArray[np.float32]:
    return array.astype(np.float32, copy=False)


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Say what could not be written when the system refuses, as on a full or read-only disk."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror or error}") from error
