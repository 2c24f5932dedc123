"""One file of named arrays: NumPy, safetensors or a PyTorch state dict.

None of these readers unpickles: object arrays are refused, and PyTorch files are loaded with
``weights_only=True``, after what they name was compared with what a state dict needs.
"""

import io
import json
import math
import pickletools
import re
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
from fedmerit.reading.budget import MOST_ARRAYS, Budget, check_names, check_number_of

Array = NDArray[Any]
# The name of the only array of a file that does not name it.
UNNAMED = ""
# Of each version of NumPy's format: how the header's length is written, and what reads it.
_HEADERS = {
    (1, 0): (struct.Struct("<H"), npy.read_array_header_1_0),
    (2, 0): (struct.Struct("<I"), npy.read_array_header_2_0),
}
_MOST_HEADER = 10_000  # bytes, as NumPy has it, which however reads them first
# What a damaged or hostile header makes NumPy, and Python's own parser under it, say.
_BAD_HEADER = (
    *(ValueError, TypeError, SyntaxError, tokenize.TokenError, struct.error),
    *(OverflowError, MemoryError, RecursionError),
)
_COMPRESSION = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy and PyTorch write
_BRAIN_FLOAT = "BF16"
_SAFETENSORS_KINDS = frozenset(
    {_BRAIN_FLOAT, "F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "BOOL"}
)
_STATE_DICT = "state_dict"
_PICKLE = "data.pkl"
_OBJECT_BYTES = 256  # at most so many for one byte of a pickle: an empty set
# What the pickle of a state dict names. PyTorch allows more, which a few bytes let take any memory.
_STATE_DICT_NAMES = re.compile(
    r"collections OrderedDict|torch \w+Storage|torch\.storage (Untyped|Typed)Storage"
    r"|torch\._utils _rebuild_(tensor_v2|tensor_v3|parameter)"
    r"|torch (float|double|half|bfloat16|u?int\d+|float\d+|long|bool|Size|device)"
)
# Other ways of naming something in a pickle, which torch.save does not use.
_OTHER_NAMING = frozenset({"INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"})
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
        if path.exists() and not path.is_file():
            raise DataError(f"a file of arrays must be a file, got something else: {path}")
        arrays = reader(path, budget)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if not arrays:
        raise DataError(f"{path} must hold at least one array, got none")
    check_names(tuple(arrays), path)
    return arrays


def _read_npy(path: Path, budget: Budget) -> dict[str, Array]:
    with path.open("rb") as file:
        return {UNNAMED: _read_array(file, path.stat().st_size, path, budget)}


def read_npz(path: Path, budget: Budget) -> dict[str, Array]:
    """Return the arrays of an archive of NumPy's, whatever stands before it in the file."""
    arrays: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in _members(archive, path):
                name = info.filename.removesuffix(".npy")
                if name in arrays:
                    raise DataError(f"names in {path} must differ, got {name!r} twice")
                with archive.open(info) as member:
                    arrays[name] = _read_array(member, info.file_size, path, budget)
    except _BAD_ARCHIVE as error:
        raise DataError(
            f"{path} must be a .npz file of plain arrays, not cut short or damaged: {error}"
        ) from error
    return arrays


def _members(archive: zipfile.ZipFile, path: Path) -> list[zipfile.ZipInfo]:
    """Return what an archive holds, not packed in a way that takes memory of its own."""
    members = archive.infolist()
    check_number_of("arrays", len(members), MOST_ARRAYS, path)
    for info in members:
        if info.compress_type not in _COMPRESSION:
            raise DataError(
                f"{path} must be stored or deflated, got compression {info.compress_type}"
            )
    return members


def _read_array(stream: IO[bytes], size: int, path: Path, budget: Budget) -> Array:
    """Read one array in NumPy's format whose bytes, with the header, are `size`."""
    try:
        shape, fortran, dtype = _read_header(stream)
    except _BAD_HEADER as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"{path} must hold plain arrays in NumPy's format: {reason}") from error
    if dtype.kind not in "biufU" or not dtype.itemsize:
        raise DataError(f"{path} must hold arrays of numbers, got dtype {dtype}")
    if any(type(length) is not int or length < 0 for length in shape):
        raise DataError(f"{path} must hold arrays of a shape that there is, got {shape}")
    expected = math.prod(shape) * dtype.itemsize
    if stream.tell() + expected != size:
        raise DataError(
            f"{path} must hold as many bytes as its header says, {stream.tell() + expected}, "
            f"got {size}"
        )
    budget.take(expected, path)
    values = np.frombuffer(stream.read(expected), dtype=dtype)
    try:
        return values.reshape(shape[::-1]).T if fortran else values.reshape(shape)
    except ValueError as error:  # too many dimensions, or too long beside one that is zero
        raise DataError(
            f"{path} must hold arrays of a shape that there is, got one of {len(shape)} dimensions"
        ) from error


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns come first, and type; nothing long is read."""
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"format {version} is not for plain numbers")
    form, read = _HEADERS[version]
    start = stream.read(form.size)
    (length,) = form.unpack(start)
    if length > _MOST_HEADER:
        raise ValueError(f"a header must have at most {_MOST_HEADER} bytes, got {length}")
    found: tuple[tuple[int, ...], bool, np.dtype[Any]]
    found = read(io.BytesIO(start + stream.read(length)))
    return found


def _read_safetensors(path: Path, budget: Budget) -> dict[str, Array]:
    try:
        from safetensors import SafetensorError, safe_open
    except ModuleNotFoundError:
        raise MissingExtraError(
            "safetensors files need an extra: pip install 'fedmerit[cli]'"
        ) from None
    budget.take(path.stat().st_size, path)  # not compressed: the file is as large as its arrays
    try:
        with safe_open(path, framework="numpy") as file:
            kinds = {name: file.get_slice(name).get_dtype() for name in file.offset_keys()}
            for kind in kinds.values():
                if kind not in _SAFETENSORS_KINDS:
                    raise DataError(f"{path} must hold BF16, F16, F32 or F64 arrays, got {kind}")
            halves = [name for name, kind in kinds.items() if kind == _BRAIN_FLOAT]
            widened = _brain_floats(path, halves, budget) if halves else {}
            return {n: widened[n] if n in widened else file.get_tensor(n) for n in kinds}
    except SafetensorError as error:
        raise DataError(f"{path} must be a safetensors file: {error}") from error


def _brain_floats(path: Path, names: list[str], budget: Budget) -> dict[str, Array]:
    """Read arrays of BF16, which NumPy does not have: the upper halves of float32.

    The library has checked the header: its length, what it says of each array, and that these lie
    in the file.
    """
    arrays: dict[str, Array] = {}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        for name in names:
            start, end = header[name]["data_offsets"]
            budget.take(2 * (end - start), path)
            file.seek(8 + length + start)
            halves = np.frombuffer(file.read(end - start), dtype="<u2")
            whole = halves.astype(np.uint32) << np.uint32(16)
            arrays[name] = whole.view(np.float32).reshape(header[name]["shape"])
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
        _check_torch(path, budget)
    except _BAD_ARCHIVE as error:
        raise DataError(
            f"{path} must be written by torch.save of PyTorch 1.6 or newer: {error}"
        ) from error
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
        # A tensor may repeat a small storage: its own size is what a copy takes.
        budget.take(tensor.numel() * tensor.element_size(), path)
        if tensor.dtype in (torch.bfloat16, torch.float16):
            tensor = tensor.float()
        try:
            arrays[str(name)] = tensor.detach().numpy().copy()
        except (TypeError, RuntimeError) as error:  # a type that NumPy does not have
            raise DataError(
                f"{path} must hold tensors of plain numbers, got {name!r} of {tensor.dtype}"
            ) from error
    return arrays


def _check_torch(path: Path, budget: Budget) -> None:
    """Set bytes aside for a file of PyTorch's, and refuse what a state dict does not name."""
    with zipfile.ZipFile(path) as archive:
        members = _members(archive, path)
        budget.take(sum(info.file_size for info in members), path)
        for info in members:
            if not info.filename.endswith(_PICKLE):
                continue
            budget.take(_OBJECT_BYTES * info.file_size, path)
            for operation, value, _ in pickletools.genops(archive.read(info)):
                other = operation.name == "GLOBAL" and not _STATE_DICT_NAMES.fullmatch(str(value))
                if other or operation.name in _OTHER_NAMING:
                    raise DataError(
                        f"{path} must hold tensors and nothing that runs code, got "
                        f"{value or operation.name}"
                    )


READERS: dict[str, Callable[[Path, Budget], dict[str, Array]]] = {
    ".npz": read_npz,
    ".npy": _read_npy,
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}
