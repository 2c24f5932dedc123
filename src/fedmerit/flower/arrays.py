"""Flower's records as named arrays, and what can be wrong with one that a client sent."""

from collections.abc import Iterator
from io import BytesIO

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedmerit.errors import UpdatesError
from fedmerit.server.layout import Layout, check_finite, cut_text
from fedmerit.types import FloatArray

_STYPE = "numpy.ndarray"
_LONGEST_HEADER = 10_000
_NUMBERS = "fiub"
_LARGEST_ITEM = 8  # bytes of float64


def named(arrays: ArrayRecord) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Yield the server's own arrays one by one."""
    for name, array in arrays.items():
        yield name, array.numpy()


def read_update(
    layout: Layout, sent: ArrayRecord, model: FloatArray, into: NDArray[np.floating]
) -> None:
    """Write ``sent - model`` into the vector `into`, if `sent` is a model like ours."""

    def read(name: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
        return decode(name, sent[name], shape)

    layout.read_update(sent.keys(), read, model, into)
    for name in sorted(layout.fixed):  # the strategy inside may combine these as well
        check_finite(name, read(name, layout.shapes[name]))


def decode(name: str, array: Array, shape: tuple[int, ...]) -> NDArray[np.generic]:
    """Return the values of a client's array, flat, in C order, without copying them.

    Any type of number will do, as for FedAvg. Nothing in it is believed before it is checked: a
    header may claim a terabyte.
    """
    if array.stype != _STYPE:
        raise UpdatesError(f"{name} must be stored as {_STYPE}, got {array.stype[:40]!r}")
    values = int(np.prod(shape, dtype=np.int64))
    if len(array.data) > values * _LARGEST_ITEM + _LONGEST_HEADER:
        raise UpdatesError(f"{name} must have {values} numbers, got {len(array.data)} bytes")
    buffer = BytesIO(array.data)
    try:
        version = npy.read_magic(buffer)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        stored, fortran_order, kind = read_header(buffer, max_header_size=_LONGEST_HEADER)
    except Exception as error:  # whatever a parser makes of hostile bytes, it is no array
        raise UpdatesError(f"{name} must be a readable array, got {type(error).__name__}") from None
    if stored != shape or tuple(array.shape) != shape:
        raise UpdatesError(f"{name} must have shape {shape}, got {cut_text(stored)}")
    if kind.kind not in _NUMBERS or kind.itemsize > _LARGEST_ITEM:
        raise UpdatesError(f"{name} must be real numbers, got {cut_text(kind)}")
    content = memoryview(array.data)[buffer.tell() :]
    if len(content) != values * kind.itemsize:
        raise UpdatesError(f"{name} must take {values * kind.itemsize} bytes, got {len(content)}")
    flat = np.frombuffer(content, dtype=kind)
    return flat.reshape(shape, order="F").reshape(-1) if fortran_order else flat
