"""What long runs came to, kept until something that decides them changes."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from fedmerit.disk.files import whole_file

LIBRARIES = (torch.__version__, np.__version__)  # they decide the last bits


def kept(
    folder: Path | None, inputs: str, run: Callable[[], Mapping[str, ArrayLike]]
) -> Mapping[str, NDArray[Any]]:
    """Return what `run` gave when it was called before with the same inputs, or call it.

    Parameters
    ----------
    folder : path or None
        Where results are kept, one file each; None calls `run`.
    inputs : str
        Everything that decides: the fingerprint of the code, data, settings, `LIBRARIES`.
    run : callable
        Returns arrays by name.
    """
    if folder is None:
        return {name: np.asarray(value) for name, value in run().items()}
    path = folder / f"{digest(inputs.encode())}.npz"
    if not path.is_file():
        with whole_file(path) as partial:
            np.savez(partial, allow_pickle=False, **run())
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def digest(content: bytes) -> str:
    """Return a name for `content`."""
    return sha256(content).hexdigest()[:32]
