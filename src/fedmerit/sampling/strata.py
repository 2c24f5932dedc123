"""Strata: groups of parameters about which the public knows the same."""

import numpy as np
from numpy.typing import NDArray

from fedmerit.quantisers import bins_of_equal_counts
from fedmerit.sampling.draw import choose_parameters, restrict
from fedmerit.types import FloatArray, RoundInputs, Signals
from fedmerit.validation import check_finite

DEFAULT_STRATA = 32
# A half of a stratum must fill an 8 x 8 table; layers smaller than this are put together.
_SMALLEST = 256


def lay_out(
    inputs: RoundInputs, strata: int, sample: int | None, rng: np.random.Generator
) -> tuple[RoundInputs, NDArray[np.int64]]:
    """Return the round on a sample of parameters, stratum by stratum, and where each starts.

    Stratum s of the returned round holds the parameters ``starts[s]:starts[s + 1]``. The values
    that are kept are checked here: nobody has looked at those of a large model before.
    """
    positions, starts = choose_strata(
        inputs.parameters, inputs.public, inputs.layers, strata, sample, rng
    )
    sampled = restrict(inputs, positions)
    if not isinstance(sampled.updates, Signals):
        check_finite(sampled.updates, name="updates", positions=positions)
    if sampled.previous is not None:
        check_finite(sampled.previous, name="previous", positions=positions)
    return sampled, starts


def choose_strata(
    parameters: int,
    public: FloatArray | None,
    layers: NDArray[np.int64] | None,
    strata: int,
    sample: int | None,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which parameters count, stratum by stratum, and where each stratum starts."""
    positions = choose_parameters(parameters, layers, sample, rng)
    first = None if public is None else public[0, positions]
    layer = None if layers is None else layers[positions]
    stratum = assign_strata(len(positions), first, layer, strata)
    # Small integer types are sorted by radix.
    small = stratum.astype(np.min_scalar_type(int(stratum.max())))
    starts = np.concatenate(([0], np.cumsum(np.bincount(stratum))))
    return positions[np.argsort(small, kind="stable")], starts


def assign_strata(
    parameters: int,
    public: FloatArray | None,
    layers: NDArray[np.int64] | None,
    strata: int,
) -> NDArray[np.int64]:
    """Return each parameter's stratum: its layer, then the quantile of the public vector.

    Layers share the `strata` in proportion to their sizes, at least one each; small layers form one
    layer together. Equal public values are never put apart.
    """
    layer = np.zeros(parameters, dtype=np.int64) if layers is None else layers
    if public is not None:
        # Exact zeros (dead units, untouched rows) are a kind of their own: everybody's are.
        layer = 2 * layer + (public == 0)
    layer = _merge_small(layer)
    result = np.zeros(parameters, dtype=np.int64)
    used = 0
    for name in np.flatnonzero(np.bincount(layer)):
        members = np.flatnonzero(layer == name)
        wanted = round(strata * len(members) / parameters)
        bins = int(np.clip(wanted, 1, max(len(members) // _SMALLEST, 1)))
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


def _merge_small(layers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return layers numbered from 0; those too small for a stratum are put together."""
    sizes = np.bincount(layers)
    large = sizes >= _SMALLEST
    names = np.where(large, np.cumsum(large) - 1, large.sum())
    merged: NDArray[np.int64] = names[layers]
    return merged
