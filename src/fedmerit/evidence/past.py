"""What the past tells: each client's own reports, to see them come back, and a forecast for all.

A report that is sent again, rescaled or in any mixture with others, is explained by those that
were sent before. To keep all of them whole would take too much memory; some thousand parameters
are enough to see it. Which ones is drawn from what all clients of the first round reported, which
nobody knows when it reports.

A client with few examples has few ways to go: updates of a linear model lie in the span of its
examples, and after as many reports as it has examples every further one is explained, whoever
sends it. So no more of a client's reports are held against it than a tenth of the examples that it
claims, as many observations as a regression wants. Who claims few to get away weighs little.

Updates of successive rounds are related: a parameter that moved twice in one direction moves again,
and by more where the model is large. Who has watched the federation can make a table of that and
report what it says instead of working. The server makes the same table, from past rounds alone,
and what it forecasts is public.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.limits import LIMITS
from fedmerit.kernels.levels import bins_of_equal_counts
from fedmerit.kernels.products import products_of_few
from fedmerit.types import FloatArray

Floats = NDArray[np.float64]
SKETCHED = 2048  # parameters
REPORTS = 24  # of each client, the newest
# Bins of the table: by the last update, the one before it, and the model.
BINS = (32, 12, 6)
LARGEST = 1_000_000  # parameters; of larger models it would take longer than the scores
_CELLS = int(np.prod(BINS))
_LEARNED = 50_000  # parameters, spread evenly, are enough to fill the table
_NEEDED = 4  # models: three updates, the newest of which is what is learned
_RIDGE = 1e-10  # squared, the share of a vector that is taken for rounding


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
        self,
        clients: Sequence[str],
        updates: FloatArray,
        public: FloatArray | None,
        sizes: Floats,
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return which share of each report public vectors and its own past explain, and how many.

        Shares are of the length, (k,), 0 where a client has no past; then so many earlier reports
        were looked at, (k,): no more than may be by the `sizes` that are claimed, and than the
        parameters allow that are no zeros in all of them.
        """
        directions = directions_of(sizes)
        shares, counts = np.zeros(len(clients)), np.zeros(len(clients), dtype=np.int64)
        if self.places is None:
            return shares, counts
        known = np.ones((1, len(self.places)))
        if public is not None:
            known = np.concatenate((known, public[:, self.places].astype(np.float64)))
        known = _units(known)
        reports = updates[:, self.places].astype(np.float64)
        usable = np.array([np.isfinite(report).all() for report in reports])
        reports[~usable] = 0.0
        regression = _Regression(known, reports)
        for row, client in enumerate(clients):
            past = self.reports.get(client)
            if past is None or not usable[row]:
                continue
            moved = int(np.count_nonzero(np.any(past, axis=0) | (reports[row] != 0)))
            most = min(moved // LIMITS.parameters_per_vector - len(known), int(directions[row]))
            if most < 1:
                continue
            counts[row] = min(len(past), most)
            shares[row] = 1 - regression.left(row, _units(past[-most:].astype(np.float64)))
        return shares, counts


def directions_of(sizes: Floats) -> NDArray[np.int64]:
    """Return how many of each client's earlier reports its claimed size lets speak, (k,)."""
    return np.minimum(sizes / LIMITS.parameters_per_vector, REPORTS).astype(np.int64)


def _draw(updates: FloatArray) -> NDArray[np.int64]:
    """Return places in rising order that depend on all reports, but not on their order."""
    parameters = updates.shape[1]
    if parameters <= SKETCHED:
        return np.arange(parameters)
    digests = sorted(sha256(row.tobytes()).digest() for row in updates)
    rng = np.random.default_rng(int.from_bytes(sha256(b"".join(digests)).digest(), "big"))
    return np.sort(rng.choice(parameters, size=SKETCHED, replace=False))


def _units(vectors: Floats) -> Floats:
    """Return the vectors at length one, without those that are zero."""
    sizes = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    units: Floats = vectors[sizes > 0] / sizes[sizes > 0, None]
    return units


class _Regression:
    """Regression of reports, (k, s), on what is known of all, (r, s), and on own vectors."""

    def __init__(self, known: Floats, reports: Floats) -> None:
        self._known, self._reports = known, reports
        self._products = products_of_few(np.concatenate((known, reports)), known)

    def left(self, row: int, own: Floats) -> float:
        """Return how long what regression leaves of a report is, relative to it: 1 for noise."""
        report, public = self._reports[row], len(self._known)
        length = float(np.linalg.norm(report))
        if length == 0:
            return 1.0  # which is no repetition
        units = np.concatenate((self._known, own, report[None]))
        products = np.empty((len(units), len(units) - 1))
        products[:, public:] = products_of_few(units, own)
        products[:public, :public] = self._products[:public]
        products[public:-1, :public] = products[:public, public:].T
        products[-1, :public] = self._products[public + row]
        # Units may be almost one vector: what sets them apart by less than the ridge is rounding.
        normal = products[:-1] + _RIDGE * np.eye(len(units) - 1)
        found = np.linalg.solve(normal, products[-1])
        rest = float(np.linalg.norm(report - np.einsum("i,ip->p", found, units[:-1])))
        freedom = len(report) - len(units) + 1
        return min(rest / length * float(np.sqrt(len(report) / freedom)), 1.0)


@dataclass(frozen=True)
class Forecast:
    """A table of which way parameters went; each round returns the next one.

    Attributes
    ----------
    went, seen : (cells,) float
        For parameters in a cell, the sum of the signs of where they went then, beyond what is
        linear in what was known, and how many they were.
    """

    went: Floats = field(default_factory=lambda: np.zeros(_CELLS))
    seen: Floats = field(default_factory=lambda: np.zeros(_CELLS))

    def after(self, models: Sequence[FloatArray]) -> "Forecast":
        """Return the table with the newest update of `models`, the newest last."""
        if len(models) < _NEEDED or models[-1].size > LARGEST or not np.isfinite(models[-1]).all():
            return self
        step = max(1, models[-1].size // _LEARNED)
        seen = [model[::step] for model in models[-_NEEDED:]]
        known, moved = _known(seen[:-1]), seen[-1] - seen[-2]
        signs = np.sign(_beyond(moved, known))
        cells = _cells(known)
        went = self.went + np.bincount(cells, signs, _CELLS)
        return Forecast(went, self.seen + np.bincount(cells, minlength=_CELLS))

    def of(self, models: Sequence[FloatArray]) -> FloatArray | None:
        """Return which way parameters like these went before, (d,); None where nothing is known."""
        if not self.went.any() or models[-1].size > LARGEST or not np.isfinite(models[-1]).all():
            return None
        means = (self.went / np.maximum(self.seen, 1)).astype(models[-1].dtype)
        forecast: FloatArray = means[_cells(_known(models))]
        return forecast


def _known(models: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the last update, the one before it, and the model."""
    return models[-1] - models[-2], models[-2] - models[-3], models[-1]


def _cells(known: Sequence[FloatArray]) -> NDArray[np.int64]:
    """Return the cell of each parameter: by each vector's quantile."""
    cells = np.zeros(known[0].size, dtype=np.int64)
    for vector, bins in zip(known, BINS, strict=True):
        cells = cells * bins + bins_of_equal_counts(vector[None], bins)[0]
    return cells


def _beyond(vector: FloatArray, known: Sequence[FloatArray]) -> Floats:
    """Return what linear regression on what was known leaves."""
    rows = [np.ones(vector.size), *(v.astype(np.float64) for v in known)]
    units = np.stack([row / max(float(np.linalg.norm(row)), 1e-300) for row in rows])
    found = np.linalg.lstsq(units @ units.T, units @ vector, rcond=None)[0]
    rest: Floats = vector - found @ units
    return rest
