"""Who can be told from somebody who worked: decisions against what is typical in the same round.

Honest reports of a convex model are explained by public information to three quarters, those of a
large network to a twentieth. So no share by itself speaks against a client: what is judged is
whether its report leaves less unexplained than a report of this cohort would, with a stated chance
of an error; and where the round cannot decide that, nobody is judged.
"""

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.decisions import FEWEST, far_below
from fedmerit.evidence.limits import LIMITS
from fedmerit.flags import Flag, Kind
from fedmerit.types import Contributions, FloatArray

Booleans = NDArray[np.bool_]


def lack_of_power(parameters: int, public: FloatArray | None) -> str:
    """Return why nobody can be judged by so many parameters, in words; empty where that is not so.

    What public information explains is found by regression, which fits anything by few parameters.
    """
    vectors = 0 if public is None else len(public)
    needed = LIMITS.parameters_per_vector * (vectors + 1)
    if parameters >= needed:
        return ""
    return (
        f"{parameters} parameters and {vectors} public vectors: at least {needed} parameters "
        "needed to judge"
    )


def abstained(
    method: str, clients: int, why: str, standing: Booleans | None = None
) -> Contributions:
    """Return a round that cannot be judged: all are equal, and nothing new is held against anybody.

    Who stands accused since earlier rounds (`standing`) stays out.
    """
    out = np.zeros(clients, dtype=np.bool_) if standing is None else standing
    undecided = Flag(Kind.UNDECIDED, why)
    return Contributions.of(
        method,
        np.where(out, 0.0, 1.0),
        flags=tuple(Flag(Kind.STANDING) if one else undecided for one in out),
        eligible=~out,
        work=np.zeros(clients),
    )


def explained_reports(
    shares: NDArray[np.float64], members: Booleans, least: float, rate: float
) -> Booleans:
    """Return whose report is public information, (k,).

    It leaves less unexplained than a report of the cohort's `members` would, below a prediction
    interval of the logarithms. Where hardly anything is left, which only training of simple models
    gives, the error is `rate` for each client, and without a cohort all others of whom more is left
    count. Where public information explains at least the share `least`, the error is
    `LIMITS.accusing` over all clients.
    """
    left = np.maximum(1.0 - shares, 0.0)
    nothing: Booleans = left <= LIMITS.nothing_left
    logs = np.log(np.maximum(left, LIMITS.nothing_left))
    known = np.zeros_like(nothing)
    for client in np.flatnonzero(shares >= least):
        other = ~nothing & (np.arange(len(shares)) != client)
        cohort = other & members
        if nothing[client]:
            others = cohort if cohort.sum() >= FEWEST else other
            known[client] = far_below(logs[client], logs[others], rate)
        elif cohort.sum() >= LIMITS.fewest_members:
            known[client] = far_below(logs[client], logs[cohort], LIMITS.accusing / len(shares))
    return known
