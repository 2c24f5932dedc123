"""Who belongs together: the cohort, cliques beside it, and near-copies."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

# Chance that any two of all independent clients of a round are joined by accident.
_FAMILY_ERROR = 0.01
# Private parts this similar are one client's work sent twice.
_COPY_COSINE = 0.98


@dataclass(frozen=True)
class Copies:
    """Groups of near-copies: how many share one work, and one twin of each (-1: none)."""

    group_size: NDArray[np.int64]
    twin: NDArray[np.int64]


def find_cohort(z: NDArray[np.float64]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Return who belongs to the cohort, and for everybody else the reason in words.

    Clients are joined where their agreement is significant, at a family-wise error over all pairs;
    the largest connected group is the cohort. Colluders who agree only among themselves form a
    smaller group as long as they are fewer than the honest ones. Where nobody is joined, there is
    nothing to compare with: everybody stays, and nobody is given a reason.
    """
    clients = len(z)
    compared = ~np.isnan(z)
    pairs = max(int(compared.sum()) // 2, 1)
    threshold = NormalDist().inv_cdf(1 - _FAMILY_ERROR / pairs)
    group = _connected(compared & (np.nan_to_num(z) > threshold))
    names, sizes = np.unique(group, return_counts=True)
    largest = sizes.max()
    if largest == 1:
        return np.ones(clients, dtype=np.bool_), ("",) * clients
    # Of groups of equal size, the one that agrees most is the cohort.
    candidates = names[sizes == largest]
    strength = [np.nansum(np.where(np.outer(group == n, group == n), z, 0.0)) for n in candidates]
    cohort = group == candidates[int(np.argmax(strength))]
    size_of = dict(zip(names.tolist(), sizes.tolist(), strict=True))
    reasons = tuple(
        ""
        if cohort[client]
        else "independent of every peer"
        if size_of[int(group[client])] == 1
        else "agrees only with a clique"
        for client in range(clients)
    )
    return cohort, reasons


def near_copies(cosine: NDArray[np.float64]) -> Copies:
    """Group clients whose private parts are nearly the same."""
    alike = cosine > _COPY_COSINE
    np.fill_diagonal(alike, False)
    group = _connected(alike)
    sizes = np.bincount(group, minlength=len(cosine))[group]
    first = np.argmax(alike, axis=1)
    return Copies(group_size=sizes, twin=np.where(alike.any(axis=1), first, -1))


def _connected(edges: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Label connected components by their smallest member."""
    clients = len(edges)
    label = np.arange(clients)
    reach = edges | edges.T | np.eye(clients, dtype=np.bool_)
    while True:
        lowest = np.where(reach, label[None, :], clients).min(axis=1)
        if (lowest == label).all():
            return label
        label = lowest
