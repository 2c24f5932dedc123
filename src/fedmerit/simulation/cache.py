"""Fetched data on disk: one npz per data set, complete or absent, checked each time it is read."""

import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from fedmerit.errors import DataError
from fedmerit.simulation.idx import IDX_FILES

IMAGE_KEYS = tuple(IDX_FILES)
_DIGEST = "sha256"


def cache_folder() -> Path:
    """Return the folder for fetched data (FEDMERIT_CACHE, or the user's cache folder)."""
    chosen = os.environ.get("FEDMERIT_CACHE")
    return Path(chosen) if chosen else user_cache_path("fedmerit")


def cache_file(name: str) -> Path:
    """Return where the data set called `name` is kept once fetched."""
    return cache_folder() / f"{name}.npz"


def store(path: Path, arrays: Mapping[str, NDArray[Any]], keys: Sequence[str] = IMAGE_KEYS) -> None:
    """Write `arrays` and their digest; whoever looks sees the old file or the complete new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = np.frombuffer(_digest(arrays, keys), dtype=np.uint8)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays, **{_DIGEST: digest})
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def restore(path: Path, keys: Sequence[str] = IMAGE_KEYS) -> dict[str, NDArray[Any]]:
    """Read what `store` wrote; a file that fails its check is removed, so it is never used."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {key: file[key] for key in keys}
            intact = file[_DIGEST].tobytes() == _digest(arrays, keys)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        intact = False
    if not intact:
        path.unlink(missing_ok=True)
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
