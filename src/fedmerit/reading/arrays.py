"""One file of named arrays: NumPy, safetensors or a PyTorch state dict.

None of these readers unpickles: object arrays are refused, and PyTorch files are loaded with
``weights_only=True``, which builds tensors and plain containers and nothing else.
"""

import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedmerit.errors import DataError, MissingExtraError
from fedmerit.reading.budget import MOST_ARRAYS, Budget, check_number_of

Array = NDArray[Any]
# The name of the only array of a file that does not name it.
UNNAMED = ""
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_STATE_DICT = "state_dict"
# What a damaged or hostile archive makes the zip reader say.
_BAD_ARCHIVE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError),
    *(RuntimeError, EOFError, ValueError),
)


def read_arrays(path: Path, budget: Budget) -> dict[str, Array]:
    """Return the arrays of a file by name, in the order of the file."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise DataError(f"a file of arrays must end in {known}, got {path.name}")
    try:
        arrays = reader(path, budget)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if not arrays:
        raise DataError(f"{path} must hold at least one array, got none")
    return arrays


def _read_npy(path: Path, budget: Budget) -> dict[str, Array]:
    with path.open("rb") as file:
        return {UNNAMED: _read_array(file, path.stat().st_size, path, budget)}


def read_npz(path: Path, budget: Budget) -> dict[str, Array]:
    """Return the arrays of an archive of NumPy's, whatever stands before it in the file."""
    arrays: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            check_number_of("arrays", len(archive.infolist()), MOST_ARRAYS, path)
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name in arrays:
                    raise DataError(f"names in {path} must differ, got {name!r} twice")
                with archive.open(info) as member:
                    arrays[name] = _read_array(member, info.file_size, path, budget)
    except _BAD_ARCHIVE as error:
        raise DataError(f"{path} must be a .npz file of plain arrays: {error}") from error
    return arrays


def _read_array(stream: IO[bytes], size: int, path: Path, budget: Budget) -> Array:
    """Read one array in NumPy's format whose bytes, with the header, are `size`."""
    try:
        version = npy.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"format {version} is not for plain numbers")
        shape, fortran, dtype = _HEADERS[version](stream)
    except (ValueError, SyntaxError, tokenize.TokenError) as error:  # of a damaged header
        raise DataError(f"{path} must hold plain arrays in NumPy's format: {error}") from error
    if dtype.kind not in "biufU":
        raise DataError(f"{path} must hold arrays of numbers, got dtype {dtype}")
    if any(length < 0 for length in shape):
        raise DataError(f"{path} must hold arrays of a shape that there is, got {shape}")
    expected = math.prod(shape) * dtype.itemsize
    if stream.tell() + expected != size:
        raise DataError(
            f"{path} must hold as many bytes as its header says, {stream.tell() + expected}, "
            f"got {size}"
        )
    budget.take(expected, path)
    values = np.frombuffer(stream.read(expected), dtype=dtype)
    return values.reshape(shape[::-1]).T if fortran else values.reshape(shape)


def _read_safetensors(path: Path, budget: Budget) -> dict[str, Array]:
    try:
        from safetensors import SafetensorError, safe_open
    except ModuleNotFoundError:
        raise MissingExtraError(
            "safetensors files need an extra: pip install 'fedmerit[cli]'"
        ) from None
    budget.take(path.stat().st_size, path)  # not compressed: the file is as large as its arrays
    arrays: dict[str, Array] = {}
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.offset_keys():
                kind = file.get_slice(name).get_dtype()
                if kind not in {"F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "BOOL"}:
                    raise DataError(f"{path} must hold F16, F32 or F64 arrays, got {kind}")
                arrays[name] = file.get_tensor(name)
    except SafetensorError as error:
        raise DataError(f"{path} must be a safetensors file: {error}") from error
    return arrays


def _read_torch(path: Path, budget: Budget) -> dict[str, Array]:
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtraError(
            "PyTorch files need an extra: pip install 'fedmerit[sim]'"
        ) from None
    if not path.is_file():
        raise DataError(f"there must be a file at {path}, got none")
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except _BAD_ARCHIVE as error:
        raise DataError(
            f"{path} must be written by torch.save of PyTorch 1.6 or newer: {error}"
        ) from error
    budget.take(size, path)
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a hostile file makes the loader say
        reason = next(iter(str(error).splitlines()), type(error).__name__)  # some say nothing
        raise DataError(f"{path} must hold tensors and nothing that runs code: {reason}") from error
    if isinstance(loaded, dict) and isinstance(loaded.get(_STATE_DICT), dict):
        loaded = loaded[_STATE_DICT]
    if not isinstance(loaded, dict):
        raise DataError(f"{path} must hold a state dict, got {type(loaded).__name__}")
    arrays: dict[str, Array] = {}
    for name, tensor in loaded.items():
        if not isinstance(tensor, torch.Tensor):
            continue
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise DataError(f"{path} must hold dense tensors, got {name} as {tensor.layout}")
        # A tensor may repeat a small storage: its own size is what a copy takes.
        budget.take(tensor.numel() * tensor.element_size(), path)
        if tensor.dtype in (torch.bfloat16, torch.float16):
            tensor = tensor.float()
        arrays[str(name)] = tensor.detach().numpy().copy()
    return arrays


READERS: dict[str, Callable[[Path, Budget], dict[str, Array]]] = {
    ".npz": read_npz,
    ".npy": _read_npy,
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}
