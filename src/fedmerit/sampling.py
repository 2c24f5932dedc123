"""Which parameters are looked at: how many are enough, a sample drawn late, and its strata.

A stratum is a group of parameters about which the public knows the same. The draw comes after the
updates are in, and its cost does not grow with the model.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedmerit.kernels.bits import fill_balanced_half
from fedmerit.kernels.layout import halve_strata, take_columns
from fedmerit.kernels.levels import bins_of_equal_counts
from fedmerit.types import FloatArray, RoundInputs, Signals
from fedmerit.validation import check_count, check_finite, check_levels, check_number

DEFAULT_SAMPLE = 50_000
# Of every layer at least so many parameters are kept: the last layer is small and says much. Where
# there are many layers it is fewer: what they get together is no more than the sample.
_LEAST_PER_LAYER = 2_000
_PIECE = 8_192
_Value = TypeVar("_Value", bound=np.generic)
DEFAULT_STRATA = 32
# A half of a stratum must fill an 8 x 8 table; smaller layers are put together, zeros apart.
_SMALLEST_STRATUM = 256
# Theorem 1 states O(9 h^2 log(1/delta) / epsilon^2). The 9 is the paper's; the constant hidden in
# the O is not given there and is taken as 1.
_PAPER_FACTOR = 9
# Of epsilon and delta: squares and inverses of much smaller numbers are not finite.
_SMALLEST_SETTING = 1e-100


def required_parameters(levels: int, epsilon: float, delta: float) -> int:
    """Return the number of parameters after Theorem 1 of the paper.

    With that many, the mechanism is `epsilon`-informed incentive compatible with probability at
    least ``1 - delta``. The theorem states an order; its hidden constant is taken as 1.

    Examples
    --------
    >>> required_parameters(levels=8, epsilon=0.1, delta=0.05)
    172555
    """
    h = check_levels(levels)
    epsilon = check_number("epsilon", epsilon, least=_SMALLEST_SETTING)
    delta = check_number("delta", delta, least=_SMALLEST_SETTING, below=1)
    return ceil(_PAPER_FACTOR * h**2 * log(1 / delta) / epsilon**2)


def sample_size(epsilon: float, delta: float, clients: int) -> int:
    """Return how many parameters to sample so that no pair's agreement is off by much.

    The share of sampled parameters on which two clients agree differs from the share among all by
    more than `epsilon` for any pair of `clients`, with probability at most `delta`. By Hoeffding's
    inequality, which also holds for sampling without replacement (Hoeffding 1963, section 6), and
    a union bound over the pairs. It does not depend on the size of the model. The bound holds for
    a fixed notion of which levels agree; scores estimate that on the sample as well, which adds to
    the error (docs/results/performance.md has what was seen).

    Examples
    --------
    >>> sample_size(epsilon=0.02, delta=0.01, clients=20)
    13182
    """
    epsilon = check_number("epsilon", epsilon, least=_SMALLEST_SETTING, most=1)
    delta = check_number("delta", delta, least=_SMALLEST_SETTING, below=1)
    pairs = check_count("clients", clients, least=2) * (clients - 1) / 2
    return ceil(log(2 * pairs / delta) / (2 * epsilon**2))


# --- the sample


def check_sample(sample: int | None) -> None:
    """Check the setting: a number of parameters, or ``None`` for all."""
    if sample is not None:
        check_count("sample", sample, least=1)


def choose_parameters(
    parameters: int, layers: NDArray[np.integer] | None, size: int | None, rng: np.random.Generator
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
    least = min(_LEAST_PER_LAYER, max(size // int(np.count_nonzero(members)), 1))
    small = members * size < least * parameters
    if not small.any():
        return even
    # Each small layer is sampled alone.
    extra = [
        np.flatnonzero(layers == name)[_spread(int(members[name]), least, rng)]
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
    reports = updates.values if isinstance(updates, Signals) else updates
    values, public, previous, testimony = _take_all(
        (reports, inputs.public, inputs.previous, inputs.testimony), positions
    )
    assert values is not None, "a round has updates"
    return replace(
        inputs,
        updates=Signals(values, updates.levels) if isinstance(updates, Signals) else values,
        public=public,
        layers=None if inputs.layers is None else inputs.layers[positions],
        previous=previous,
        testimony=testimony,
    )


def _take_all(
    arrays: Sequence[NDArray[Any] | None], positions: NDArray[np.int64]
) -> list[NDArray[Any] | None]:
    """Return the columns at `positions` of several arrays, (..., d) each, or None for None.

    Those of one type share one block of memory: pages of large blocks are large as well.
    """
    taken: list[NDArray[Any] | None] = [None] * len(arrays)
    known = {place: array for place, array in enumerate(arrays) if array is not None}
    for kind in dict.fromkeys(array.dtype for array in known.values()):
        alike = {place: array for place, array in known.items() if array.dtype == kind}
        flat = {place: array.reshape(-1, array.shape[-1]) for place, array in alike.items()}
        rows = take([row for array in flat.values() for row in array], positions, kind)
        edges = np.cumsum([len(array) for array in flat.values()])[:-1]
        for (place, array), part in zip(alike.items(), np.split(rows, edges), strict=True):
            taken[place] = part.reshape(*array.shape[:-1], len(positions))
    return taken


def take(
    rows: Sequence[NDArray[_Value]] | NDArray[_Value],
    positions: NDArray[np.int64],
    kind: np.dtype[_Value] | None = None,
) -> NDArray[_Value]:
    """Return the columns at `positions` of the rows; `kind` is the type of rows in a list."""
    taken = np.empty((len(rows), len(positions)), kind or rows.dtype)  # type: ignore[union-attr]
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


# --- its strata


def lay_out(
    inputs: RoundInputs, strata: int, sample: int | None, rng: np.random.Generator
) -> tuple[RoundInputs, NDArray[np.int64], NDArray[np.int64]]:
    """Return the round on a sample of parameters, half by half, where each starts, and which.

    Half h of the returned round holds the parameters ``halves[h]:halves[h + 1]``; halves 2s and
    2s + 1 are those of stratum s, drawn at random. The values that are kept are checked here,
    unless a server has drawn and checked them: nobody else has looked at those of a large model
    before.
    """
    size = None if inputs.sampled else sample
    positions, halves = choose_strata(
        inputs.parameters, inputs.public, inputs.layers, strata, size, rng
    )
    sampled = restrict(inputs, positions)
    if inputs.sampled:
        return sampled, halves, positions
    if not isinstance(sampled.updates, Signals):
        check_finite(sampled.updates, name="updates", positions=positions)
    if sampled.previous is not None:
        for reports in sampled.previous:
            check_finite(reports, name="previous", positions=positions)
    return sampled, halves, positions


def choose_strata(
    parameters: int,
    public: FloatArray | None,
    layers: NDArray[np.int64] | None,
    strata: int,
    sample: int | None,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which parameters count, half by half of each stratum, and where each half starts."""
    positions = choose_parameters(parameters, layers, sample, rng)
    first = None if public is None else public[0, positions]
    layer = None if layers is None else layers[positions]
    stratum = assign_strata(len(positions), first, layer, strata)
    # Small integer types are sorted by radix.
    small = stratum.astype(np.min_scalar_type(int(stratum.max())))
    starts = np.concatenate(([0], np.cumsum(np.bincount(stratum))))
    order, halves = halves_of_strata(starts, rng)
    return positions[np.argsort(small, kind="stable")[order]], halves


def halves_of_strata(
    starts: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an order that lists two random halves of each stratum, and where each half starts.

    Stratum s holds the parameters ``starts[s]:starts[s + 1]``. Over all strata exactly half of the
    parameters are drawn, so a single stratum is halved to within one.
    """
    parameters = int(starts[-1])
    words = np.empty((parameters + 63) // 64, dtype=np.uint64)
    fill_balanced_half(rng.integers(0, 2**64, dtype=np.uint64), parameters, words)
    order, halves = np.empty(parameters, np.int64), np.empty(2 * len(starts) - 1, np.int64)
    halve_strata(words, starts, order, halves)
    return order, halves


def assign_strata(
    parameters: int,
    public: FloatArray | None,
    layers: NDArray[np.int64] | None,
    strata: int,
) -> NDArray[np.int64]:
    """Return each parameter's stratum: its layer, then the quantile of the public vector.

    Layers share the `strata` in proportion to their sizes, at least one each; small layers form one
    layer together. Equal public values are never put apart, and zeros never with others.
    """
    layer = np.zeros(parameters, dtype=np.int64) if layers is None else layers
    # Exact zeros (dead units, untouched rows) are a kind of their own: everybody's are.
    zero = np.zeros(parameters, dtype=np.bool_) if public is None else public == 0
    layer = _merge_small(2 * layer + zero, zero)
    result = np.zeros(parameters, dtype=np.int64)
    used = 0
    for name in np.flatnonzero(np.bincount(layer)):
        members = np.flatnonzero(layer == name)
        wanted = round(strata * len(members) / parameters)
        bins = int(np.clip(wanted, 1, max(len(members) // _SMALLEST_STRATUM, 1)))
        if public is None or bins == 1:
            result[members] = used
            used += 1
        else:
            levels = _quantile_bins(public[members], bins)
            result[members] = used + levels
            used += int(levels.max()) + 1
    return result


def _quantile_bins(values: FloatArray, bins: int) -> NDArray[np.int64]:
    """Return bins of about equal counts, numbered without gaps; equal values share one."""
    levels = bins_of_equal_counts(values[None], bins)[0]
    occupied = np.bincount(levels) > 0
    numbered: NDArray[np.int64] = (np.cumsum(occupied) - 1)[levels]
    return numbered


def _merge_small(layers: NDArray[np.int64], zero: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return layers by number; those too small for a stratum are put together, zeros apart."""
    large = np.bincount(layers) >= _SMALLEST_STRATUM
    names = np.cumsum(large) - 1
    return np.where(large[layers], names[layers], large.sum() + zero)
