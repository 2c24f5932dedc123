"""Search for the re-labelling of a client's signals that scores most.

By the additivity shown in :mod:`fedmerit.incentive.truthfulness`, a re-labelling is a way to group
rows of X. Up to 8 levels all of them are tried: the 8^8 maps of eight levels are 4,140 different
groupings. Beyond that, random maps and hill climbing, which moves one row at a time.

The searcher sees the peers' signals, which no client does: what it finds is more than a client
could find.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.incentive.truthfulness import Counts, half_weights, surplus

MAX_EXHAUSTIVE_LEVELS = 8
_BATCH = 256
_MAX_TARGETS = 16
_MAX_SWEEPS = 20

Map = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """What a client can re-label: rows of X, to be grouped into the levels of a report.

    Attributes
    ----------
    excess : (rows, m, 2, levels) float
        X of each row with each peer in each half. Whole numbers, exact up to 90 million parameters.
    weights : (m, 2) float
        What a unit of X adds to the mean score over peers.
    """

    excess: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, counts: Counts) -> list["Rows"]:
        """Take the rows of each stratum of `counts`, (m, strata, 2, rows, levels)."""
        excess = surplus(counts).astype(np.float64)
        weights = half_weights(counts) / len(counts)
        return [
            cls(np.ascontiguousarray(excess[:, c].transpose(2, 0, 1, 3)), weights[:, c])
            for c in range(counts.shape[1])
        ]

    def score(self, maps: NDArray[np.int64], levels: int) -> NDArray[np.float64]:
        """Mean score over peers of each of `maps`, (n, rows): row a is reported as ``map[a]``."""
        found = np.empty(len(maps))
        flat = self.excess.reshape(len(self.excess), -1)
        for begin in range(0, len(maps), _BATCH):
            part = maps[begin : begin + _BATCH]
            members = (part[:, None, :] == np.arange(levels)[:, None]).astype(np.float64)
            grouped = (members @ flat).reshape(len(part), levels, *self.excess.shape[1:])
            found[begin : begin + _BATCH] = self._total(grouped).sum(axis=1)
        return found

    def _total(self, grouped: NDArray[np.float64]) -> NDArray[np.float64]:
        """Score of each grouped row, (..., m, 2, levels) to (...)."""
        agreeing = np.where(grouped[..., ::-1, :] > 0, grouped, 0.0).sum(axis=-1)
        total: NDArray[np.float64] = (agreeing * self.weights).sum(axis=(-2, -1))
        return total

    def climb(self, start: Map, levels: int, rng: np.random.Generator) -> Map:
        """Move single rows between levels for as long as the score rises."""
        current = start.copy()
        grouped = np.zeros((levels, *self.excess.shape[1:]))
        np.add.at(grouped, current, self.excess)
        for _ in range(_MAX_SWEEPS):
            moved = False
            for row in rng.permutation(len(current)):
                target = self._best_move(row, current[row], grouped, rng)
                if target != current[row]:
                    grouped[current[row]] -= self.excess[row]
                    grouped[target] += self.excess[row]
                    current[row] = target
                    moved = True
            if not moved:
                break
        return current

    def _best_move(
        self, row: int, home: int, grouped: NDArray[np.float64], rng: np.random.Generator
    ) -> int:
        targets = np.arange(len(grouped))
        if len(targets) > _MAX_TARGETS:  # many levels: a sample, lest a sweep take minutes
            targets = rng.choice(targets, _MAX_TARGETS, replace=False)
        targets = targets[targets != home]
        own = self.excess[row]
        leaving = self._total(grouped[home] - own) - self._total(grouped[home])
        joining = self._total(grouped[targets] + own) - self._total(grouped[targets])
        best = int(np.argmax(joining))
        # A hair above zero: rounding must not keep the climb walking in circles.
        return int(targets[best]) if leaving + joining[best] > 1e-15 else home


def best_map(
    rows: Rows, levels: int, rng: np.random.Generator, *, random_maps: int, climbs: int
) -> tuple[Map, float, bool]:
    """Return the best map found, its score, and whether no better one exists.

    With as many rows as levels and few levels, all groupings are tried. Otherwise: the truth,
    random maps, merges of neighbouring levels, and hill climbs from the best of them.
    """
    count = len(rows.excess)
    if count <= MAX_EXHAUSTIVE_LEVELS and levels >= count:
        maps = np.array(list(groupings(count)), dtype=np.int64)
        values = rows.score(maps, levels)
        best = int(np.argmax(values))
        return maps[best], float(values[best]), True
    truth = np.arange(count, dtype=np.int64) % levels
    merges = [truth * parts // levels for parts in range(1, min(levels, 33))]
    drawn = rng.integers(0, levels, size=(random_maps, count))
    maps = np.concatenate([truth[None], np.array(merges), drawn])
    order = np.argsort(-rows.score(maps, levels), kind="stable")
    starts = [truth, *maps[order[:climbs]]]
    climbed = np.array([rows.climb(start, levels, rng) for start in starts])
    maps = np.concatenate([maps, climbed])
    values = rows.score(maps, levels)
    best = int(np.argmax(values))
    return maps[best], float(values[best]), False


def groupings(count: int) -> Iterator[tuple[int, ...]]:
    """Yield each way to group `count` levels once, as a map to the number of the group.

    Examples
    --------
    >>> list(groupings(3))
    [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 1, 2)]
    """
    if count == 0:
        yield ()
        return
    for shorter in groupings(count - 1):
        for group in range(max(shorter, default=-1) + 2):
            yield (*shorter, group)
