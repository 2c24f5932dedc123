"""Flower's records and our vectors; and what can be wrong with the arrays of a client."""

from collections.abc import Iterator
from io import BytesIO

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedmerit.errors import UpdatesError
from fedmerit.rounds import layer_numbers
from fedmerit.types import FloatArray

_STYPE = "numpy.ndarray"
_LONGEST_HEADER = 10_000
_SHOWN_KEYS = 3


class Layout:
    """How the arrays of the global model lie in one vector, and the measure of every reply.

    Floating-point arrays are trained, so they are scored and combined. All others (counters of
    batch normalisation, for example) keep the server's value.

    Attributes
    ----------
    dtype : numpy dtype
        Of the vectors: float64 if any array is, else float32.
    parameters : int
        Length of the vectors.
    layers : (parameters,) int32
        The layer of each parameter, by the arrays' names.
    """

    def __init__(self, arrays: ArrayRecord) -> None:
        values = {name: array.numpy() for name, array in arrays.items()}
        self._shapes = {name: value.shape for name, value in values.items()}
        self._dtypes = {name: value.dtype for name, value in values.items()}
        trained = {n: v.size for n, v in values.items() if v.dtype.kind == "f"}
        self._places: dict[str, slice] = {}
        end = 0
        for name, size in trained.items():
            self._places[name] = slice(end, end + size)
            end += size
        if not end:
            raise UpdatesError("a global model must have floating-point arrays, got none")
        self.parameters = end
        self.layers = layer_numbers(trained)
        kinds = [self._dtypes[name] for name in trained]
        self.dtype = np.dtype(np.float64 if np.float64 in kinds else np.float32)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Layout)
            and self._shapes == other._shapes
            and self._dtypes == other._dtypes
        )

    __hash__ = None  # type: ignore[assignment]

    def flatten(self, arrays: ArrayRecord) -> FloatArray:
        """Return the server's own arrays as one vector."""
        vector = np.empty(self.parameters, dtype=self.dtype)
        for name, place in self._places.items():
            vector[place] = arrays[name].numpy().reshape(-1)
        if not np.isfinite(vector).all():
            raise UpdatesError("the global model must be finite, got NaN or infinity in it")
        return vector

    def restore(self, vector: FloatArray, arrays: ArrayRecord) -> ArrayRecord:
        """Return `vector` as arrays; what is not trained comes from `arrays`."""
        restored = {}
        for name, array in arrays.items():
            place = self._places.get(name)
            if place is None:
                restored[name] = array
                continue
            with np.errstate(over="ignore"):
                values = vector[place].astype(self._dtypes[name]).reshape(self._shapes[name])
            if not np.isfinite(values).all():
                raise UpdatesError(f"{name} must stay finite as {values.dtype}, got infinity")
            restored[name] = Array(values)
        return ArrayRecord(restored)

    def read_update(self, sent: ArrayRecord, model: FloatArray, into: NDArray[np.floating]) -> None:
        """Write ``sent - model`` into the vector `into`, if `sent` is a model like ours.

        Raises
        ------
        UpdatesError
            It is not; the message says why.
        """
        if sent.keys() != self._shapes.keys():
            raise UpdatesError(_difference(set(self._shapes), set(sent.keys())))
        for name in self._shapes:
            place = self._places.get(name)
            values = decode(name, sent[name], self._shapes[name], self._dtypes[name])
            if place is None:
                continue
            if not np.isfinite(values).all():
                raise UpdatesError(f"{name} must be finite, got {_first_bad(values)}")
            with np.errstate(over="ignore"):
                np.subtract(values, model[place], out=into[place])
        if not np.isfinite(into).all():
            raise UpdatesError("the update must be finite, got a value beyond its type's range")


def decode(
    name: str, array: Array, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> NDArray[np.generic]:
    """Return the values of a client's array, flat, in C order, without copying them.

    Nothing in it is believed before it is checked: a header may claim a terabyte.
    """
    if array.stype != _STYPE:
        raise UpdatesError(f"{name} must be stored as {_STYPE}, got {array.stype[:40]!r}")
    expected = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if len(array.data) > expected + _LONGEST_HEADER:
        raise UpdatesError(f"{name} must take {expected} bytes, got {len(array.data)}")
    buffer = BytesIO(array.data)
    try:
        version = npy.read_magic(buffer)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        stored, fortran_order, kind = read_header(buffer, max_header_size=_LONGEST_HEADER)
    except Exception as error:  # whatever a parser makes of hostile bytes, it is no array
        raise UpdatesError(f"{name} must be a readable array, got {type(error).__name__}") from None
    if stored != shape or tuple(array.shape) != shape:
        raise UpdatesError(f"{name} must have shape {shape}, got {_cut(stored)}")
    if kind != dtype or array.dtype != str(dtype):
        raise UpdatesError(f"{name} must be {dtype}, got {_cut(kind)}")
    content = memoryview(array.data)[buffer.tell() :]
    if len(content) != expected:
        raise UpdatesError(f"{name} must take {expected} bytes, got {len(content)}")
    values = np.frombuffer(content, dtype=dtype)
    return values.reshape(shape, order="F").reshape(-1) if fortran_order else values


def _difference(ours: set[str], theirs: set[str]) -> str:
    def some(names: set[str]) -> Iterator[str]:
        yield from (repr(name[:40]) for name in sorted(names)[:_SHOWN_KEYS])

    missing, unknown = ours - theirs, theirs - ours
    text = f"arrays must be those of the global model, got {len(theirs)} for {len(ours)}"
    if missing:
        text += f"; missing {', '.join(some(missing))}"
    return text + (f"; unknown {', '.join(some(unknown))}" if unknown else "")


def _first_bad(values: NDArray[np.generic]) -> str:
    finite = np.isfinite(values)
    where = int(np.argmin(finite))
    return f"{values[where]} at {where}"


def _cut(value: object) -> str:
    return str(value)[:60]
