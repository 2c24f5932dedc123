"""Arrays by name and our vectors; and what can be wrong with the arrays of a client."""

from collections.abc import Callable, Iterable, Iterator, Set

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import UpdatesError
from fedmerit.rounds import layer_numbers
from fedmerit.types import FloatArray

NamedArrays = Iterable[tuple[str, NDArray[np.generic]]]
# From name, shape and dtype to the values of a client's array, flat and in C order; raises
# UpdatesError where the array is another one.
ReadArray = Callable[[str, tuple[int, ...], np.dtype[np.generic]], NDArray[np.generic]]
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

    def __init__(self, arrays: NamedArrays) -> None:
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._dtypes: dict[str, np.dtype[np.generic]] = {}
        self._places: dict[str, slice] = {}
        trained: dict[str, int] = {}
        end = 0
        for name, value in arrays:
            self._shapes[name], self._dtypes[name] = value.shape, value.dtype
            if value.dtype.kind == "f":
                trained[name] = value.size
                self._places[name] = slice(end, end + value.size)
                end += value.size
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

    def flatten(self, arrays: NamedArrays) -> FloatArray:
        """Return the server's own arrays as one vector."""
        vector = np.empty(self.parameters, dtype=self.dtype)
        for name, value in arrays:
            place = self._places.get(name)
            if place is not None:
                vector[place] = value.reshape(-1)
        if not np.isfinite(vector).all():
            raise UpdatesError("the global model must be finite, got NaN or infinity in it")
        return vector

    def cut(self, vector: FloatArray) -> dict[str, NDArray[np.generic]]:
        """Return `vector` as the trained arrays, which may be views of it."""
        arrays = {}
        for name, place in self._places.items():
            with np.errstate(over="ignore"):
                values = vector[place].astype(self._dtypes[name], copy=False)
            if not np.isfinite(values).all():
                raise UpdatesError(f"{name} must stay finite as {values.dtype}, got infinity")
            arrays[name] = values.reshape(self._shapes[name])
        return arrays

    def read_update(
        self,
        names: Set[str],
        read: ReadArray,
        model: FloatArray | None,
        into: NDArray[np.floating],
    ) -> None:
        """Write a client's update into the vector `into`, if its arrays are like ours.

        Parameters
        ----------
        names : set
            Of the arrays that were sent.
        read : callable
            Gives the values of one of them.
        model : vector or None
            What to subtract: the global model where clients send models, None where they send
            updates.
        into : vector

        Raises
        ------
        UpdatesError
            They are not; the message says why.
        """
        if names != self._shapes.keys():
            raise UpdatesError(_difference(set(self._shapes), set(names)))
        for name in self._shapes:
            place = self._places.get(name)
            values = read(name, self._shapes[name], self._dtypes[name])
            if place is None:
                continue
            if not np.isfinite(values).all():
                raise UpdatesError(f"{name} must be finite, got {_first_bad(values)}")
            if model is None:
                into[place] = values
                continue
            with np.errstate(over="ignore"):
                np.subtract(values, model[place], out=into[place])
        if not np.isfinite(into).all():
            raise UpdatesError("the update must be finite, got a value beyond its type's range")


def cut_text(value: object) -> str:
    """Return the beginning of how `value` prints: a client may have chosen it."""
    return str(value)[:60]


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
