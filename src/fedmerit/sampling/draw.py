"""Scoring on a sample of the parameters, so that the cost does not grow with the model."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedmerit.kernels.layout import take_columns
from fedmerit.types import RoundInputs, Signals
from fedmerit.validation import check_count

DEFAULT_SAMPLE = 50_000
# Of every layer at least so many parameters are kept: the last layer is small and says much.
_LEAST_PER_LAYER = 2_000
_PIECE = 8_192
_Value = TypeVar("_Value", bound=np.generic)


def check_sample(sample: int | None) -> None:
    """Check the setting: a number of parameters, or ``None`` for all."""
    if sample is not None:
        check_count("sample", sample, least=1)


def choose_parameters(
    parameters: int, layers: NDArray[np.int64] | None, size: int | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return about `size` positions in rising order, spread evenly; all of them for ``None``.

    The draw comes after the updates are in: nobody can know which parameters will count.
    """
    if size is None or parameters <= size:
        return np.arange(parameters)
    even = _spread(parameters, size, rng)
    if layers is None:
        return even
    members = np.bincount(layers)
    small = members * size < _LEAST_PER_LAYER * parameters
    if not small.any():
        return even
    # Each small layer is sampled alone.
    extra = [
        np.flatnonzero(layers == name)[_spread(int(members[name]), _LEAST_PER_LAYER, rng)]
        for name in np.flatnonzero(small & (members > 0))
    ]
    # A few runs in rising order, which a stable sort only has to merge.
    return np.sort(np.concatenate([even[~small[layers[even]]], *extra]), kind="stable")


def sample_parameters(
    inputs: RoundInputs, size: int | None, rng: np.random.Generator
) -> RoundInputs:
    """Return the round restricted to about `size` parameters, the same for all clients."""
    if size is None or inputs.parameters <= size:
        return inputs
    return restrict(inputs, choose_parameters(inputs.parameters, inputs.layers, size, rng))


def restrict(inputs: RoundInputs, positions: NDArray[np.int64]) -> RoundInputs:
    """Return the round with the parameters at `positions`, in that order."""
    updates = inputs.updates
    return replace(
        inputs,
        updates=Signals(take(updates.values, positions), updates.levels)
        if isinstance(updates, Signals)
        else take(updates, positions),
        public=None if inputs.public is None else take(inputs.public, positions),
        layers=None if inputs.layers is None else inputs.layers[positions],
        previous=None if inputs.previous is None else take(inputs.previous, positions),
    )


def take(rows: NDArray[_Value], positions: NDArray[np.int64]) -> NDArray[_Value]:
    """Return the columns at `positions`."""
    taken = np.empty((rows.shape[0], len(positions)), dtype=rows.dtype)
    take_columns(rows, positions, taken)
    return taken


def _spread(length: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return about `size` of `length` positions, at a cost that does not grow with `length`."""
    if length <= size:
        return np.arange(length)
    if length < 4 * size:
        # Piece by piece: memory that is asked for anew every round costs more than the numbers.
        pieces = [
            begin + np.flatnonzero(rng.random(min(_PIECE, length - begin)) < size / length)
            for begin in range(0, length, _PIECE)
        ]
        return np.concatenate(pieces)
    # One position at random in each of `size` equal stretches. Neighbours can meet in one position.
    stretches = (np.arange(size) + rng.random(size)) * (length / size)
    positions = np.minimum(stretches.astype(np.int64), length - 1)
    return positions[np.diff(positions, prepend=-1) > 0]
