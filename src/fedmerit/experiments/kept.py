"""What long runs came to, kept until something that decides them changes."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from fedmerit.experiments.fingerprint import Sources
from fedmerit.files import whole_file


def kept(
    folder: Path | None, sources: Sources, inputs: str, run: Callable[[], Mapping[str, ArrayLike]]
) -> Mapping[str, NDArray[Any]]:
    """Return what `run` gave when it was called before with the same code and inputs, or call it.

    Parameters
    ----------
    folder : path or None
        Where results are kept, one file each; None calls `run`.
    sources : Sources
        The code that decides.
    inputs : str
        Everything else that does, but for the versions of NumPy and PyTorch.
    run : callable
        Returns arrays by name.
    """
    if folder is None:
        return {name: np.asarray(value) for name, value in run().items()}
    path = folder / f"{digest(repr((sources.code.digest, inputs, _LIBRARIES)).encode())}.npz"
    if not path.is_file():
        with whole_file(path) as partial:
            np.savez(partial, allow_pickle=False, **run())
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def digest(content: bytes) -> str:
    """Return a name for `content`."""
    return sha256(content).hexdigest()[:32]


_LIBRARIES = (np.__version__, torch.__version__)
