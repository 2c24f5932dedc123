"""Arrays by name <-> one vector."""

from collections.abc import Iterable, Mapping, Set

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import Fault, Rule, UpdatesError
from fedmerit.types import FloatArray

Array = NDArray[np.generic]
NamedArrays = Iterable[tuple[str, Array]]
# Statistics that layers gather while training, and that no gradient moves: they are combined, but
# what they say about a client's work is that it has seen data.
_STATISTICS = ("running_mean", "running_var", "moving_mean", "moving_variance")


def other_shape(name: str, shape: tuple[int, ...], got: object) -> UpdatesError:
    """Return the refusal of an array that has another shape than the server's."""
    adapter = "; adapters must have the rank of the server's" if "lora_" in name.lower() else ""
    return UpdatesError(
        f"{name or 'the vector'} must have shape {shape}, got {got}{adapter}",
        fault=Fault(Rule.SHAPE, (name, str(got))),
    )


class Layout:
    """How the arrays of the global model lie in one vector.

    Floating-point arrays are trained, so they are combined; all of them but running statistics are
    scored. All others (counters of batch normalisation, for example) keep the server's value.

    Attributes
    ----------
    dtype : numpy dtype
        Of the vectors: float64 if any array is, else float32.
    parameters : int
        Length of the vectors.
    places : mapping of name to slice
        Where the trained arrays lie in them.
    counted : tuple of slice
        Where those lie that scores look at.
    """

    def __init__(self, arrays: NamedArrays) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, np.dtype[np.generic]] = {}
        self.places: dict[str, slice] = {}
        end = 0
        for name, value in arrays:
            self.shapes[name], self.dtypes[name] = value.shape, value.dtype
            if value.dtype.kind == "f":
                self.places[name] = slice(end, end + value.size)
                end += value.size
        if not end:
            raise UpdatesError("a global model must have floating-point arrays, got none")
        self.parameters = end
        kinds = [self.dtypes[name] for name in self.places]
        self.dtype = np.dtype(np.float64 if np.float64 in kinds else np.float32)
        learnt = {n: p for n, p in self.places.items() if n.rpartition(".")[2] not in _STATISTICS}
        self.counted = tuple((learnt if _length(learnt.values()) else self.places).values())

    @property
    def layers(self) -> NDArray[np.int32]:
        """The layer of each parameter, by the arrays' names, made when it is asked for."""
        sizes = {name: place.stop - place.start for name, place in self.places.items()}
        return layer_numbers(sizes)

    @property
    def scored(self) -> NDArray[np.int64] | None:
        """The parameters that scores look at, where these are not all, made when asked for."""
        if _length(self.counted) == self.parameters:
            return None
        return np.concatenate([np.arange(place.start, place.stop) for place in self.counted])

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
        return self.shapes.keys() - self.places.keys()

    def flatten(self, arrays: NamedArrays) -> FloatArray:
        """Return the server's own arrays as one vector, which is public and read-only."""
        vector = np.empty(self.parameters, dtype=self.dtype)
        for name, value in arrays:
            place = self.places.get(name)
            if place is not None:
                vector[place] = value.reshape(-1)
        if not np.isfinite(vector).all():
            raise UpdatesError("the global model must be finite, got NaN or infinity in it")
        vector.setflags(write=False)
        return vector

    def as_sent(self, vector: FloatArray) -> FloatArray | None:
        """Return `vector` as the arrays hold it, which may be coarser; None if that is not finite.

        It is the given vector where nothing is coarser, and read-only.
        """
        if any(self.dtypes[name] != vector.dtype for name in self.places):
            fine, vector = vector, np.empty(self.parameters, dtype=self.dtype)
            with np.errstate(over="ignore"):
                for name, place in self.places.items():
                    vector[place] = fine[place].astype(self.dtypes[name], copy=False)
        if not np.isfinite(vector).all():
            return None
        vector.setflags(write=False)
        return vector

    def cut(self, vector: FloatArray) -> dict[str, Array]:
        """Return `vector` as the trained arrays, which may be views of it."""
        arrays = {}
        for name, place in self.places.items():
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
            for name, place in self.places.items():
                part = model[place].astype(self.dtypes[name], copy=False) * float(weight)
                if name in sums:
                    sums[name] += part  # type: ignore[misc]
                else:
                    sums[name] = part
        vector = np.empty(self.parameters, dtype=self.dtype)
        for name, place in self.places.items():
            vector[place] = sums[name]
        return vector


def _length(places: Iterable[slice]) -> int:
    return sum(place.stop - place.start for place in places)


def layer_numbers(sizes: Mapping[str, int]) -> NDArray[np.int32]:
    """Return which layer each parameter belongs to, (d,): ``a.weight`` and ``a.bias`` share one."""
    owners = [name.rpartition(".")[0] or name for name in sizes]
    ids = {owner: number for number, owner in enumerate(dict.fromkeys(owners))}
    return np.repeat([ids[owner] for owner in owners], list(sizes.values())).astype(np.int32)
