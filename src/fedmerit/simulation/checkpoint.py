"""A run on disk: written whole or not at all, never pickled, continued only by the same run."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import CheckpointError, DataError
from fedmerit.reading.arrays import Array, read_arrays
from fedmerit.reading.budget import Budget
from fedmerit.scorers import RoundHistory
from fedmerit.scorers.wealth import Wealth
from fedmerit.simulation.federation import FederationState
from fedmerit.types import FloatArray, freeze

VERSION = 4


@dataclass(frozen=True)
class Checkpoint:
    """A state, the fingerprint of its federation, and how long the result files were then."""

    state: FederationState
    fingerprint: str
    sizes: tuple[int, ...] = ()


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write `checkpoint`; a crash leaves the one before it."""
    state = checkpoint.state
    history = state.history
    # One name for all: what a killed run left behind is overwritten by the next one.
    temporary = path.with_name(path.name + ".part")
    with storing(path), temporary.open("wb") as file:
        np.savez(
            file,
            allow_pickle=False,
            version=np.int64(VERSION),
            fingerprint=np.str_(checkpoint.fingerprint),
            round=np.int64(state.round),
            norms=np.array(state.norms, dtype=np.float64),
            older=np.int64(history.older),
            remembered=np.int64(history.remembered),
            models=np.stack(history.models),
            reporters=np.array(list(history.previous), dtype=np.str_),
            reports=_stacked(list(history.previous.values()), state.model.size),
            trusted=np.array(list(history.trust), dtype=np.str_),
            trust=np.array(list(history.trust.values()), dtype=np.float64),
            naming=np.float64(history.naming),
            watched=np.array(list(history.wealth), dtype=np.str_),
            wealth=_table(history.wealth.values()),
            sizes=np.array(checkpoint.sizes, dtype=np.int64),
            owners=np.array([c for c, past in state.own.items() for _ in past], dtype=np.int64),
            own=_stacked([report for past in state.own.values() for report in past], 0),
        )
        file.flush()
        os.fsync(file.fileno())
        temporary.replace(path)


def load_checkpoint(path: Path, fingerprint: str) -> Checkpoint:
    """Read a checkpoint that must belong to the run with this `fingerprint`."""
    try:
        # Nothing in it is compressed, so its arrays are not larger than itself.
        file = read_arrays(path, Budget(path.stat().st_size))
        version = int(file["version"])
        if version != VERSION:
            raise CheckpointError(f"{path} must have version {VERSION}, got {version}")
        checkpoint = Checkpoint(
            FederationState(
                round=int(file["round"]),
                history=_history(file),
                norms=tuple(float(norm) for norm in file["norms"]),
                own=_own(file),
            ),
            str(file["fingerprint"]),
            tuple(int(size) for size in file["sizes"]),
        )
    except (DataError, OSError, TypeError, ValueError, KeyError, OverflowError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from None
    if checkpoint.fingerprint != fingerprint:
        raise CheckpointError(
            f"{path} belongs to a run with other settings, data or code for them "
            f"({checkpoint.fingerprint[:12]}, this run is {fingerprint[:12]}): "
            "continue it with the settings it was started with, or choose another folder"
        )
    return checkpoint


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Say what could not be written when the system refuses, as on a full or read-only disk."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror or error}") from error


def _stacked(reports: list[FloatArray], size: int) -> NDArray[np.float32]:
    """Stack remembered reports; where scores look at some parameters only, they are shorter."""
    return np.reshape(reports, (len(reports), reports[0].size if reports else size))


def _table(wealth: Iterable[Wealth]) -> NDArray[np.float64]:
    """One row per client: both wealths and the number of rounds."""
    return np.array([astuple(known) for known in wealth], dtype=np.float64).reshape(-1, 3)


def _own(file: Mapping[str, Array]) -> dict[int, tuple[FloatArray, ...]]:
    """Return the first reports of clients that remember them."""
    own: dict[int, tuple[FloatArray, ...]] = {}
    for client, report in zip(file["owners"].tolist(), file["own"], strict=True):
        own[int(client)] = (*own.get(int(client), ()), report.astype(np.float32))
    return own


def _history(file: Mapping[str, Array]) -> RoundHistory:
    reports = file["reports"].astype(np.float32)
    return RoundHistory(
        older=int(file["older"]),
        remembered=int(file["remembered"]),
        models=tuple(freeze(model) for model in file["models"]),
        previous=dict(zip(file["reporters"].tolist(), reports, strict=True)),
        trust=dict(zip(file["trusted"].tolist(), file["trust"].tolist(), strict=True)),
        naming=float(file["naming"]),
        wealth={
            client: Wealth(independent, replayed, int(rounds))
            for client, (independent, replayed, rounds) in zip(
                file["watched"].tolist(), file["wealth"].tolist(), strict=True
            )
        },
    )
