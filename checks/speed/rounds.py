"""Rounds to measure on: honest clients, stale replays and random reports, of any size.

Values come from one pool of normal numbers, read from different places: drawing 8 GB anew would
take longer than what is measured.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_POOL = 20_000_003
_CHUNK = 4_000_000
STEP, NOISE = 0.002, 0.004


@cache
def pool() -> Floats:
    """Return the numbers everything is made of."""
    return np.random.default_rng(0).standard_normal(_POOL, dtype=np.float32)


def noise(seed: int, parameters: int) -> Iterator[tuple[slice, Floats]]:
    """Yield normal numbers piece by piece, with the places they are for."""
    start = 7_368_787 * (seed + 1)
    for begin in range(0, parameters, _CHUNK):
        size = min(_CHUNK, parameters - begin)
        # The step between pieces is prime to the pool's length: they do not repeat each other.
        first = (start + begin // _CHUNK * 9_368_321) % (_POOL - size)
        yield slice(begin, begin + size), pool()[first : first + size]


def public_vectors(count: int, parameters: int) -> Floats:
    """Return what everybody knows; the first one is the last global update."""
    known = np.empty((count, parameters), dtype=np.float32)
    for index, row in enumerate(known):
        for place, numbers in noise(1000 + index, parameters):
            row[place] = STEP * numbers
    return known


def fill_report(kind: str, client: int, public: Floats, report: Floats) -> None:
    """Write a report: "honest" (a common step, own noise), "stale" (a replay) or "random"."""
    parameters = len(report)
    for place, own in noise(client, parameters):
        report[place] = NOISE * own
    if kind == "honest":
        for place, common in noise(999, parameters):
            report[place] += STEP * common
        report += np.float32(0.5) * public
    elif kind == "stale":
        report *= np.float32(0.1)
        report += public


def make_round(clients: int, public: Floats) -> tuple[Floats, list[str]]:
    """Return the updates and kinds of a round: 60 % honest, 20 % stale, 20 % random."""
    kinds = [("honest", "honest", "honest", "stale", "random")[i % 5] for i in range(clients)]
    updates = np.empty((clients, public.shape[-1]), dtype=np.float32)
    for client, kind in enumerate(kinds):
        fill_report(kind, client, np.atleast_2d(public)[0], updates[client])
    return updates, kinds


def roc_auc(scores: NDArray[np.float64], kinds: list[str], dishonest: str) -> float:
    """Return how often an honest client's score is above a dishonest one's; ties count half."""
    honest = scores[[kind == "honest" for kind in kinds]]
    others = scores[[kind == dishonest for kind in kinds]]
    above = np.sign(honest[:, None] - others[None])
    return float((above + 1).mean() / 2)
