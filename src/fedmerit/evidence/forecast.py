"""What anybody can forecast of the next update: one more public vector.

Updates of successive rounds are related: a parameter that moved twice in one direction moves again,
and by more where the model is large. Who has watched the federation can make a table of that and
report what it says instead of working. The server makes the same table, from past rounds alone,
and what it forecasts is public.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedmerit.types import FloatArray

Floats = NDArray[np.float64]
# Bins of the table: by the last update, the one before it, and the model.
BINS = (32, 12, 6)
LARGEST = 1_000_000  # parameters; of larger models it would take longer than the scores
_CELLS = int(np.prod(BINS))
_LEARNED = 50_000  # parameters, spread evenly, are enough to fill the table
_SAMPLED = 20_000  # parameters, from which it is found where bins begin
_NEEDED = 4  # models: three updates, the newest of which is what is learned


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
    places = [_quantile(v, bins) for v, bins in zip(known, BINS, strict=True)]
    cells: NDArray[np.int64] = np.ravel_multi_index(tuple(places), BINS)
    return cells


def _quantile(vector: FloatArray, bins: int) -> NDArray[np.int64]:
    step = max(1, vector.size // _SAMPLED)
    edges = np.quantile(vector[::step], np.arange(1, bins) / bins).astype(vector.dtype)
    return np.searchsorted(edges, vector)


def _beyond(vector: FloatArray, known: Sequence[FloatArray]) -> Floats:
    """Return what linear regression on what was known leaves."""
    rows = [np.ones(vector.size), *(v.astype(np.float64) for v in known)]
    units = np.stack([row / max(float(np.linalg.norm(row)), 1e-300) for row in rows])
    found = np.linalg.lstsq(units @ units.T, units @ vector, rcond=None)[0]
    rest: Floats = vector - found @ units
    return rest
