"""Results of a scorer from a matrix of pairwise z, with the evidence that follows from it."""

import numpy as np

from fedmerit.evidence.cohort import find_cohort
from fedmerit.flags import Kind
from fedmerit.types import Contributions, Pairs

PARAMETERS = 1_000_000


def result_from(z, flags=None, explained=None, parameters=PARAMETERS):
    """A round in which everybody had that z; who is flagged joins no group and is not eligible."""
    k = len(z)
    barred = np.array([flag is not None for flag in flags or [None] * k])
    known = (Kind.EXPLAINED, Kind.REPEATED)
    replayed = np.array([flag is not None and flag.kind in known for flag in flags or [None] * k])
    shares = np.zeros(k) if explained is None else np.asarray(explained, dtype=float)
    cohort = find_cohort(z, barred, parameters)
    return Contributions.of(
        "conditional",
        np.zeros(k),
        flags=flags,
        eligible=~barred,
        work=np.zeros(k),
        pairs=Pairs(np.zeros((k, k)), z=z),
        evidence=cohort.evidence(shares, replayed),
    )
