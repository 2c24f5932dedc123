"""Strata: groups of parameters about which the public knows the same."""

import numpy as np
from numpy.typing import NDArray

from fedmerit.quantisers import QuantileBins
from fedmerit.types import FloatArray

DEFAULT_STRATA = 32
# A half of a stratum must fill an 8 x 8 table; layers smaller than this are put together.
_SMALLEST = 256


def assign_strata(
    parameters: int,
    public: FloatArray | None,
    layers: NDArray[np.int64] | None,
    strata: int,
) -> NDArray[np.int64]:
    """Return each parameter's stratum: its layer, then the quantile of the first public vector.

    Layers share the `strata` in proportion to their sizes, at least one each; small layers form one
    layer together. Equal public values are never put apart.
    """
    layer = np.zeros(parameters, dtype=np.int64) if layers is None else layers
    if public is not None:
        # Exact zeros (dead units, untouched rows) are a kind of their own: everybody's are.
        layer = 2 * layer + (public[0] == 0)
    layer = _merge_small(layer)
    result = np.zeros(parameters, dtype=np.int64)
    used = 0
    for name in np.unique(layer):
        members = np.flatnonzero(layer == name)
        wanted = round(strata * len(members) / parameters)
        bins = int(np.clip(wanted, 1, max(len(members) // _SMALLEST, 1)))
        if public is None or bins == 1:
            result[members] = used
            used += 1
        else:
            values = np.ascontiguousarray(public[:1, members])
            levels = QuantileBins(bins).quantise(values, np.random.default_rng(0)).values[0]
            _, compact = np.unique(levels, return_inverse=True)
            result[members] = used + compact
            used += int(compact.max()) + 1
    return result


def group_by(labels: NDArray[np.int64], groups: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an order that lists members label by label, and where each of the `groups` starts."""
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(labels, minlength=groups))))
    return order.astype(np.int64), starts.astype(np.int64)


def _merge_small(layers: NDArray[np.int64]) -> NDArray[np.int64]:
    names, index, sizes = np.unique(layers, return_inverse=True, return_counts=True)
    small = sizes < _SMALLEST
    names = np.arange(len(names))
    names[small] = len(names)
    merged: NDArray[np.int64] = names[index.reshape(-1)]
    return merged
