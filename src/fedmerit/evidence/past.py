"""A client's own past: sketches of many of its earlier reports, to see them come back.

A report that is sent again, rescaled or in any mixture with others, is explained by those that
were sent before. To keep all of them whole would take too much memory; some thousand parameters
are enough to see it. Which ones is drawn from what all clients of the first round reported, which
nobody knows when it reports.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.limits import LIMITS
from fedmerit.types import FloatArray

SKETCHED = 2048  # parameters
REPORTS = 24  # of each client, the newest


@dataclass(frozen=True)
class Sketches:
    """Earlier reports of each client at a few places; each step returns the next sketches.

    Attributes
    ----------
    places : (s,) int or None
        Which parameters are kept; None before the first round.
    reports : mapping from client to (n, s) float array
        The newest last.
    """

    places: NDArray[np.int64] | None = None
    reports: Mapping[str, FloatArray] = field(default_factory=dict)

    def after(self, clients: Sequence[str], updates: FloatArray, kept: Sequence[str]) -> "Sketches":
        """Return the sketches with the `updates` of a round, of the clients that are `kept`."""
        places = _draw(updates) if self.places is None else self.places
        reports = {client: self.reports[client] for client in kept if client in self.reports}
        for row, client in enumerate(clients):
            new = updates[row, places][None]
            before = reports.get(client)
            known = new if before is None else np.concatenate((before, new))
            reports[client] = known[-REPORTS:]
        return Sketches(places, {client: reports[client] for client in kept if client in reports})

    def explain(
        self, clients: Sequence[str], updates: FloatArray, public: FloatArray | None
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return which share of each report public vectors and its own past explain, and how many.

        Shares are of the length, (k,), 0 where a client has no past; then so many earlier reports
        were looked at, (k,): no more than the parameters allow.
        """
        shares, counts = np.zeros(len(clients)), np.zeros(len(clients), dtype=np.int64)
        if self.places is None:
            return shares, counts
        known = np.ones((1, len(self.places)))
        if public is not None:
            known = np.concatenate((known, public[:, self.places].astype(np.float64)))
        most = len(self.places) // LIMITS.parameters_per_vector - len(known)
        for row, client in enumerate(clients):
            past = self.reports.get(client)
            report = updates[row, self.places].astype(np.float64)
            if past is None or most < 1 or not np.isfinite(report).all():
                continue
            past = past[-most:].astype(np.float64)
            counts[row] = len(past)
            shares[row] = 1 - _left(report, np.concatenate((known, past)))
        return shares, counts


def _draw(updates: FloatArray) -> NDArray[np.int64]:
    """Return places in rising order that depend on all reports, but not on their order."""
    parameters = updates.shape[1]
    if parameters <= SKETCHED:
        return np.arange(parameters)
    digests = sorted(sha256(row.tobytes()).digest() for row in updates)
    rng = np.random.default_rng(int.from_bytes(sha256(b"".join(digests)).digest(), "big"))
    return np.sort(rng.choice(parameters, size=SKETCHED, replace=False))


def _left(report: NDArray[np.float64], vectors: NDArray[np.float64]) -> float:
    """Return how long what regression leaves of a report is, relative to it: 1 for noise."""
    length = float(np.linalg.norm(report))
    if length == 0:
        return 1.0  # which is no repetition
    sizes = np.linalg.norm(vectors, axis=1)
    used = vectors[sizes > 0] / sizes[sizes > 0, None]
    found = np.linalg.lstsq(used.T, report, rcond=None)[0]
    rest = float(np.linalg.norm(report - found @ used))
    freedom = len(report) - len(used)
    return min(rest / length * float(np.sqrt(len(report) / freedom)), 1.0)
