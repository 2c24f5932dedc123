"""Flower's records as named arrays, and what can be wrong with one that a client sent."""

from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedmerit.errors import Fault, Rule, UpdatesError
from fedmerit.server import replies
from fedmerit.server.layout import Layout, other_shape
from fedmerit.server.replies import check_finite, cut_text
from fedmerit.types import FloatArray

_STYPE = "numpy.ndarray"
_LONGEST_HEADER = 10_000
_NUMBERS = "fiub"
_LARGEST_ITEM = 8  # bytes of float64


def named(arrays: ArrayRecord) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Yield the server's own arrays one by one."""
    for name, array in arrays.items():
        yield name, array.numpy()


def read_update(layout: Layout, sent: ArrayRecord, model: FloatArray, into: FloatArray) -> float:
    """Write ``sent - model`` into the vector `into`, if `sent` is a model like ours.

    Returns how long that is.
    """

    def read(name: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
        return decode(name, sent[name], shape)

    length = replies.read_update(layout, sent.keys(), read, model, into)
    for name in sorted(layout.fixed):  # the strategy inside may combine these as well
        check_finite(name, read(name, layout.shapes[name]))
    return length


def _length_of_header(data: bytes) -> int:
    """Return how long the header says it is: two bytes of version 1 do, four of later ones."""
    size = 2 if data[6:7] == b"\x01" else 4
    length = 8 + size + int.from_bytes(data[8 : 8 + size], "little")
    return min(length, _LONGEST_HEADER)


@lru_cache(maxsize=256)
def _parsed(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Return shape, order and type of the array that a header of NumPy's announces.

    All clients send the same few headers, and to parse one takes as long as to copy its array.
    """
    buffer = BytesIO(head)
    version = npy.read_magic(buffer)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, np.dtype[np.generic]] = read_header(
        buffer, max_header_size=_LONGEST_HEADER
    )
    return found


def decode(name: str, array: Array, shape: tuple[int, ...]) -> NDArray[np.generic]:
    """Return the values of a client's array, flat, in C order, without copying them.

    Any type of number will do, as for FedAvg. Nothing in it is believed before it is checked: a
    header may claim a terabyte.
    """
    if array.stype != _STYPE:
        stored_as = array.stype[:40]
        raise UpdatesError(
            f"{name} must be stored as {_STYPE}, got {stored_as!r}",
            fault=Fault(Rule.FORM, (name, stored_as)),
        )
    values = int(np.prod(shape, dtype=np.int64))
    if len(array.data) > values * _LARGEST_ITEM + _LONGEST_HEADER:
        raise UpdatesError(
            f"{name} must have {values} numbers, got {len(array.data)} bytes",
            fault=Fault(Rule.SHAPE, (name, len(array.data))),
        )
    head = bytes(array.data[: _length_of_header(array.data)])
    try:
        stored, fortran_order, kind = _parsed(head)
    except Exception as error:  # whatever a parser makes of hostile bytes, it is no array
        got = type(error).__name__
        raise UpdatesError(
            f"{name} must be a readable array, got {got}", fault=Fault(Rule.FORM, (name, got))
        ) from None
    if stored != shape or tuple(array.shape) != shape:
        raise other_shape(name, shape, cut_text(stored))
    if kind.kind not in _NUMBERS or kind.itemsize > _LARGEST_ITEM:
        raise UpdatesError(
            f"{name} must be real numbers, got {cut_text(kind)}",
            fault=Fault(Rule.NUMBERS, (name, cut_text(kind))),
        )
    content = memoryview(array.data)[len(head) :]
    if len(content) != values * kind.itemsize:
        raise UpdatesError(
            f"{name} must take {values * kind.itemsize} bytes, got {len(content)}",
            fault=Fault(Rule.SHAPE, (name, str(kind), len(content))),
        )
    flat = np.frombuffer(content, dtype=kind)
    return flat.reshape(shape, order="F").reshape(-1) if fortran_order else flat
