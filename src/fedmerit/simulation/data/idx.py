"""The IDX files of MNIST and its relatives: unsigned bytes behind a big-endian header."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import DataError

Bytes = NDArray[np.uint8]

# name in a data set -> name of the file; the order is the order of `RawImages`
IDX_FILES = {
    "train_x": "train-images-idx3-ubyte",
    "train_y": "train-labels-idx1-ubyte",
    "test_x": "t10k-images-idx3-ubyte",
    "test_y": "t10k-labels-idx1-ubyte",
}
_UNSIGNED_BYTE = 0x08
_MAX_DIMENSIONS = 3
# Several times the largest of these data sets: a packed file cannot fill the memory.
_MAX_BYTES = 2**30


def encode_idx(array: Bytes) -> bytes:
    """Return the bytes of the IDX file that holds `array`."""
    header = struct.pack(">HBB", 0, _UNSIGNED_BYTE, array.ndim)
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def decode_idx(content: bytes, name: str) -> Bytes:
    """Read IDX bytes; `name` is for the message when they are damaged."""
    if len(content) < 4:
        raise DataError(f"{name} must start with an IDX header, got {len(content)} bytes")
    zero, kind, ndim = struct.unpack(">HBB", content[:4])
    if zero != 0 or kind != _UNSIGNED_BYTE:
        raise DataError(
            f"{name} must be an IDX file of unsigned bytes, got header {content[:4].hex()}"
        )
    if not 1 <= ndim <= _MAX_DIMENSIONS:
        raise DataError(f"{name} must have 1 to {_MAX_DIMENSIONS} dimensions, got {ndim}")
    start = 4 + 4 * ndim
    if len(content) < start:
        raise DataError(f"{name} must have {ndim} sizes in its header, got {len(content)} bytes")
    shape = struct.unpack(f">{ndim}I", content[4:start])
    expected = start + math.prod(shape)
    if len(content) != expected:
        raise DataError(f"{name} must be {expected} bytes long, got {len(content)}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_folder(folder: Path) -> dict[str, Bytes]:
    """Read the four IDX files of a folder, each plain or gzipped."""
    return {key: decode_idx(_read(folder, file), file) for key, file in IDX_FILES.items()}


def _read(folder: Path, file: str) -> bytes:
    plain, packed = folder / file, folder / f"{file}.gz"
    try:
        if plain.is_file():
            with plain.open("rb") as raw:
                return _bounded(raw, file)
        if packed.is_file():
            with gzip.open(packed) as raw:
                return _bounded(raw, file)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file} in {folder} cannot be read: {error}") from None
    raise DataError(f"{folder} must contain {file} or {file}.gz, found neither")


def _bounded(raw: IO[bytes] | gzip.GzipFile, file: str) -> bytes:
    content = raw.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise DataError(f"{file} must have at most {_MAX_BYTES} bytes, got more")
    return content
