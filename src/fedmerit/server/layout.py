"""Arrays by name and our vectors; and what can be wrong with the arrays of a client."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import UpdatesError
from fedmerit.types import FloatArray

Array = NDArray[np.generic]
NamedArrays = Iterable[tuple[str, Array]]
# From name and shape to the values of a client's array, flat and in C order, of any numeric dtype;
# raises UpdatesError where the array is another one.
ReadArray = Callable[[str, tuple[int, ...]], Array]
_SHOWN_KEYS = 3
# Statistics that layers gather while training, and that no gradient moves: they are combined, but
# what they say about a client's work is that it has seen data.
_STATISTICS = ("running_mean", "running_var", "moving_mean", "moving_variance")
_NUMBERS = "fiub"


class Layout:
    """How the arrays of the global model lie in one vector, and the measure of every reply.

    Floating-point arrays are trained, so they are combined; all of them but running statistics are
    scored. All others (counters of batch normalisation, for example) keep the server's value.

    Attributes
    ----------
    dtype : numpy dtype
        Of the vectors: float64 if any array is, else float32.
    parameters : int
        Length of the vectors.
    layers : (parameters,) int32
        The layer of each parameter, by the arrays' names.
    scored : positions or None
        The parameters that scores look at, where these are not all.
    """

    def __init__(self, arrays: NamedArrays) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, np.dtype[np.generic]] = {}
        self._places: dict[str, slice] = {}
        trained: dict[str, int] = {}
        end = 0
        for name, value in arrays:
            self.shapes[name], self.dtypes[name] = value.shape, value.dtype
            if value.dtype.kind == "f":
                trained[name] = value.size
                self._places[name] = slice(end, end + value.size)
                end += value.size
        if not end:
            raise UpdatesError("a global model must have floating-point arrays, got none")
        self.parameters = end
        self.layers = layer_numbers(trained)
        kinds = [self.dtypes[name] for name in trained]
        self.dtype = np.dtype(np.float64 if np.float64 in kinds else np.float32)
        self.scored = self._scored()

    def _scored(self) -> NDArray[np.int64] | None:
        kept = np.ones(self.parameters, dtype=np.bool_)
        for name, place in self._places.items():
            if name.rpartition(".")[2] in _STATISTICS:
                kept[place] = False
        return None if kept.all() or not kept.any() else np.flatnonzero(kept)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Layout)
            and self.shapes == other.shapes
            and self.dtypes == other.dtypes
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def fixed(self) -> Set[str]:
        """Names of the arrays that keep the server's value."""
        return self.shapes.keys() - self._places.keys()

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

    def holds(self, vector: FloatArray) -> bool:
        """Whether `vector` stays finite as the arrays that it is cut into."""
        with np.errstate(over="ignore"):
            return all(
                bool(np.isfinite(vector[place].astype(self.dtypes[name], copy=False)).all())
                for name, place in self._places.items()
            )

    def cut(self, vector: FloatArray) -> dict[str, Array]:
        """Return `vector` as the trained arrays, which may be views of it."""
        arrays = {}
        for name, place in self._places.items():
            with np.errstate(over="ignore"):
                values = vector[place].astype(self.dtypes[name], copy=False)
            if not np.isfinite(values).all():
                raise UpdatesError(f"{name} must stay finite as {values.dtype}, got infinity")
            arrays[name] = values.reshape(self.shapes[name])
        return arrays

    def mean(self, models: Iterable[FloatArray], weights: Iterable[float]) -> FloatArray:
        """Return the weighted sum of models, (d,), to the bit that of Flower's FedAvg.

        Each array is summed in its own type, one model after the other.
        """
        sums: dict[str, Array] = {}
        for model, weight in zip(models, weights, strict=True):
            for name, place in self._places.items():
                part = model[place].astype(self.dtypes[name], copy=False) * float(weight)
                if name in sums:
                    sums[name] += part  # type: ignore[misc]
                else:
                    sums[name] = part
        vector = np.empty(self.parameters, dtype=self.dtype)
        for name, place in self._places.items():
            vector[place] = sums[name]
        return vector

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
        if names != self.shapes.keys():
            raise UpdatesError(_difference(set(self.shapes), set(names)))
        for name, place in self._places.items():
            values = read(name, self.shapes[name])
            if values.dtype.kind not in _NUMBERS:
                raise UpdatesError(f"{name} must be numbers, got {cut_text(values.dtype)}")
            check_finite(name, values)
            start = 0 if model is None else model[place]
            with np.errstate(over="ignore"):
                np.subtract(
                    values,
                    start,
                    out=into[place],
                    casting="unsafe",
                    dtype=np.result_type(values.dtype, into.dtype),
                )
        if not np.isfinite(into).all():
            raise UpdatesError("the update must be finite, got a value beyond its type's range")


def layer_numbers(sizes: Mapping[str, int]) -> NDArray[np.int32]:
    """Return which layer each parameter belongs to, (d,): ``a.weight`` and ``a.bias`` share one."""
    owners = [name.rpartition(".")[0] or name for name in sizes]
    ids = {owner: number for number, owner in enumerate(dict.fromkeys(owners))}
    return np.repeat([ids[owner] for owner in owners], list(sizes.values())).astype(np.int32)


def as_array(name: str, value: object) -> Array:
    """Return anything that NumPy or a tensor library calls an array as a NumPy array."""
    for step in ("detach", "cpu"):  # a tensor that tracks gradients, or lives on a device
        value = getattr(value, step, lambda value=value: value)()
    if str(getattr(value, "dtype", "")).endswith("bfloat16"):  # which NumPy does not have
        convert = getattr(value, "float", None) or (lambda: value.astype(np.float32))  # type: ignore[attr-defined]
        value = convert()
    try:
        array = np.asarray(value)
    except Exception as error:  # somebody else's conversion
        raise UpdatesError(f"{name} must be an array, got {cut_text(error)}") from None
    if array.dtype.kind not in _NUMBERS:
        raise UpdatesError(f"{name} must be numbers, got {cut_text(array.dtype)}")
    return array


def check_finite(name: str, values: Array) -> None:
    """Raise UpdatesError where one of the flat `values` is NaN or infinite."""
    finite = np.isfinite(values)
    if not finite.all():
        where = int(np.argmin(finite))
        raise UpdatesError(f"{name} must be finite, got {values[where]} at {where}")


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
