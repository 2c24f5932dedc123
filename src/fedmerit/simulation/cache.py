"""Fetched data on disk: one npz per data set, complete or absent, checked each time it is read."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from fedmerit.errors import DataError
from fedmerit.files import whole_file
from fedmerit.reading.arrays import read_arrays
from fedmerit.reading.budget import Budget
from fedmerit.simulation.idx import IDX_FILES

IMAGE_KEYS = tuple(IDX_FILES)
_DIGEST = "sha256"
# Several times the largest data set: a damaged or planted file cannot fill the memory.
_MAX_BYTES = 2**30


def cache_folder() -> Path:
    """Return the folder for fetched data (FEDMERIT_CACHE, or the user's cache folder)."""
    chosen = os.environ.get("FEDMERIT_CACHE")
    return Path(chosen) if chosen else user_cache_path("fedmerit")


def cache_file(name: str) -> Path:
    """Return where the data set called `name` is kept once fetched."""
    return cache_folder() / f"{name}.npz"


def store(path: Path, arrays: Mapping[str, NDArray[Any]], keys: Sequence[str] = IMAGE_KEYS) -> None:
    """Write `arrays` and their digest; whoever looks sees the old file or the complete new one."""
    digest = np.frombuffer(_digest(arrays, keys), dtype=np.uint8)
    try:
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays, **{_DIGEST: digest})
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error


def restore(path: Path, keys: Sequence[str] = IMAGE_KEYS) -> dict[str, NDArray[Any]]:
    """Read what `store` wrote; a file that fails its check is removed, so it is never used."""
    if not path.is_file():
        raise FileNotFoundError(path)
    if not os.access(path, os.R_OK):
        raise DataError(f"{path} must be readable by this user, and is not")
    try:
        content = read_arrays(path, Budget(_MAX_BYTES))
        arrays = {key: content[key] for key in keys}
        intact = content[_DIGEST].tobytes() == _digest(arrays, keys)
    except (DataError, KeyError):
        intact = False
    if not intact:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(
                f"{path} did not match its checksum and cannot be removed: {error.strerror}"
            ) from None
        raise DataError(f"{path} did not match its checksum and was removed")
    return arrays


def is_intact(path: Path, keys: Sequence[str] = IMAGE_KEYS) -> bool:
    """Say whether there is something whole to restore."""
    try:
        restore(path, keys)
    except (FileNotFoundError, DataError):
        return False
    return True


def _digest(arrays: Mapping[str, NDArray[Any]], keys: Sequence[str]) -> bytes:
    digest = hashlib.sha256()
    for key in keys:
        digest.update(f"{key}{arrays[key].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[key]).tobytes())
    return digest.digest()
