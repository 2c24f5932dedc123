"""Fetched data on disk: one npz per data set, complete or absent, checked each time it is read.

An index beside the files says what digest each of them must have: a file that was put there by
other ways than `store` is not in it, whatever it says of itself.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from fedmerit.disk.files import read_at_most, whole_file
from fedmerit.errors import DataError
from fedmerit.reading.arrays import read_arrays
from fedmerit.reading.budget import Budget
from fedmerit.simulation.data.idx import IDX_FILES

IMAGE_KEYS = tuple(IDX_FILES)
_INDEX = "index.json"
# Several times the largest data set: a damaged or planted file cannot fill the memory.
_MAX_BYTES = 2**30
_MAX_INDEX = 10**6


def cache_folder() -> Path:
    """Return the folder for fetched data (FEDMERIT_CACHE, or the user's cache folder)."""
    chosen = os.environ.get("FEDMERIT_CACHE")
    return Path(chosen) if chosen else user_cache_path("fedmerit")


def cache_file(name: str) -> Path:
    """Return where the data set called `name` is kept once fetched."""
    return cache_folder() / f"{name}.npz"


def store(path: Path, arrays: Mapping[str, NDArray[Any]], keys: Sequence[str] = IMAGE_KEYS) -> None:
    """Write `arrays`, and their digest into the index; the file is the old one or complete."""
    try:
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        known = _index(path.parent) | {path.name: array_digest(arrays, keys)}
        with whole_file(path.parent / _INDEX) as partial:
            partial.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error


def restore(
    path: Path,
    keys: Sequence[str] = IMAGE_KEYS,
    *,
    check: Callable[[Mapping[str, NDArray[Any]]], None] | None = None,
) -> dict[str, NDArray[Any]]:
    """Read what `store` wrote; a file that fails its check is removed, so it is never used.

    `check` raises where data of a known digest is not that data; it takes the place of the index.
    """
    if not path.is_file():
        raise FileNotFoundError(path)
    if not os.access(path, os.R_OK):
        raise DataError(f"{path} must be readable by this user, and is not")
    try:
        content = read_arrays(path, Budget(_MAX_BYTES))
        arrays = {key: content[key] for key in keys}
        if check is not None:
            check(arrays)
    except (DataError, KeyError):
        intact = False
    else:
        expected = _index(path.parent).get(path.name)
        if check is None and expected is None:
            raise DataError(
                f"{path} must be in {_INDEX}, which says what was fetched, got no entry"
            )
        intact = check is not None or expected == array_digest(arrays, keys)
    if not intact:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(
                f"{path} did not match its checksum and cannot be removed: {error.strerror}"
            ) from None
        raise DataError(f"{path} did not match its checksum and was removed")
    return arrays


def is_intact(
    path: Path,
    keys: Sequence[str] = IMAGE_KEYS,
    *,
    check: Callable[[Mapping[str, NDArray[Any]]], None] | None = None,
) -> bool:
    """Say whether there is something whole to restore."""
    try:
        restore(path, keys, check=check)
    except (FileNotFoundError, DataError):
        return False
    return True


def _index(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_at_most(folder / _INDEX, _MAX_INDEX))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def array_digest(arrays: Mapping[str, NDArray[Any]], keys: Sequence[str]) -> str:
    """Return the SHA-256 of arrays, with their names, types and shapes."""
    digest = hashlib.sha256()
    for key in keys:
        array = np.ascontiguousarray(arrays[key])
        digest.update(f"{key}{array.dtype.str}{array.shape}".encode())
        digest.update(array.data.cast("B") if array.size else b"")
    return digest.hexdigest()
