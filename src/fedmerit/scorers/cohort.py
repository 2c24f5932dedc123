"""Who belongs together: the cohort, cliques beside it, and near-copies."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

# Chance that any two of all independent clients of a round are joined by accident.
_FAMILY_ERROR = 0.01
# Members whose typical mean z is below this are no yardstick; a quarter of it is far below.
_CLEAR_Z = 6.0
_FAR_BELOW = 0.25
# Private parts this similar are one client's work sent twice.
_COPY_COSINE = 0.98


@dataclass(frozen=True)
class Copies:
    """Groups of near-copies: how many share one work, and one twin of each (-1: none)."""

    group_size: NDArray[np.int64]
    twin: NDArray[np.int64]


@dataclass(frozen=True)
class Cohort:
    """The largest group of clients that agree significantly, and how everybody agrees with it.

    Attributes
    ----------
    members : (k,) bool
        Who belongs to it; nobody where no two clients agree.
    agreement : (k,) float
        Each client's mean z with the members.
    typical : float
        The median of that over the members: what the round has to offer.
    reasons : tuple of str
        Why a client is clearly outside, in words; empty for members and where it is not clear.
    """

    members: NDArray[np.bool_]
    agreement: NDArray[np.float64]
    typical: float
    reasons: tuple[str, ...]

    @property
    def evidence(self) -> NDArray[np.float64]:
        """Agreement relative to the typical, within [0, 1]; 1 for all where there is no cohort."""
        if self.typical <= 0.0:
            return np.ones(len(self.agreement))
        return np.clip(self.agreement / self.typical, 0.0, 1.0)


def find_cohort(z: NDArray[np.float64]) -> Cohort:
    """Find the cohort from the pairwise z of a round.

    Clients are joined where their agreement is significant, at a family-wise error over all pairs;
    the largest connected group is the cohort. Colluders who agree only among themselves form a
    smaller group as long as they are fewer than the honest ones.

    No agreement is evidence only while the cohort agrees: a client outside is given a reason only
    if the members agree clearly, and it agrees with them much less.
    """
    clients = len(z)
    compared = ~np.isnan(z)
    pairs = max(int(compared.sum()) // 2, 1)
    threshold = NormalDist().inv_cdf(1 - _FAMILY_ERROR / pairs)
    group = _connected(compared & (np.nan_to_num(z) > threshold))
    names, sizes = np.unique(group, return_counts=True)
    largest = sizes.max()
    if largest == 1:
        nobody = np.zeros(clients, dtype=np.bool_)
        return Cohort(nobody, np.zeros(clients), 0.0, ("",) * clients)
    # Of groups of equal size, the one that agrees most is the cohort.
    candidates = names[sizes == largest]
    strength = [np.nansum(np.where(np.outer(group == n, group == n), z, 0.0)) for n in candidates]
    members = group == candidates[int(np.argmax(strength))]

    counted = np.tile(members, (clients, 1)) & compared
    agreement = np.where(counted, z, 0.0).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    typical = float(np.median(agreement[members]))
    outside = ~members & (typical >= _CLEAR_Z) & (agreement < _FAR_BELOW * typical)
    size_of = dict(zip(names.tolist(), sizes.tolist(), strict=True))
    reasons = tuple(
        ""
        if not outside[client]
        else "independent of every peer"
        if size_of[int(group[client])] == 1
        else "agrees only with a clique"
        for client in range(clients)
    )
    return Cohort(members, agreement, typical, reasons)


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
