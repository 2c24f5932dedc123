"""How often two clients report levels (a, b) on the same parameter, for many pairs at once.

Parameters are grouped (two random halves; later halves times strata) and cut into tiles: `order`
lists the parameters group by group, and a tile is a piece of that list inside one group. While a
tile of all clients' signals is in cache, every pair is counted. Two ways to count:

- few levels: one bit plane per client and level, then AND and population count;
- many levels: a plain histogram of level pairs.

Tiles are dealt out to `counts.shape[0]` workers, each with counters of its own: a single parallel
region, in which no thread waits for another. The caller adds the workers' counters up.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from fedmerit.kernels.bits import popcount

MAX_PLANE_LEVELS = 16
TILE = 8192
_TILE_WORDS = TILE // 64
GROUP, BEGIN, END = 0, 1, 2


@njit(cache=True, parallel=True)
def count_by_planes(
    signals: NDArray[np.uint8],
    order: NDArray[np.int64],
    tiles: NDArray[np.int64],
    pairs: NDArray[np.int64],
    counts: NDArray[np.int32],
) -> None:
    """Add joint counts to `counts`, (workers, pairs, groups, levels, levels).

    `tiles` has one row (group, begin, end) per tile; begin and end are positions in `order`.
    """
    workers, levels = counts.shape[0], counts.shape[3]
    for worker in prange(workers):
        planes = np.empty((signals.shape[0], levels, _TILE_WORDS), dtype=np.uint64)
        for tile in range(worker, tiles.shape[0], workers):
            group, begin, end = tiles[tile, GROUP], tiles[tile, BEGIN], tiles[tile, END]
            words = (end - begin + 63) // 64
            for i in range(signals.shape[0]):
                _fill_planes(signals[i], order[begin:end], planes[i])
            for pair in range(pairs.shape[0]):
                first, second = planes[pairs[pair, 0]], planes[pairs[pair, 1]]
                _count_planes(first, second, words, counts[worker, pair, group])


@njit(cache=True)
def _fill_planes(
    signals: NDArray[np.uint8], positions: NDArray[np.int64], planes: NDArray[np.uint64]
) -> None:
    planes[:] = 0
    for offset in range(positions.shape[0]):
        level = signals[positions[offset]]
        planes[level, offset >> 6] |= np.uint64(1) << np.uint64(offset & 63)


@njit(cache=True)
def _count_planes(
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
    words: int,
    counts: NDArray[np.int32],
) -> None:
    levels = counts.shape[0]
    for a in range(levels):
        for b in range(levels):
            both = np.uint64(0)
            for w in range(words):
                both += popcount(first[a, w] & second[b, w])
            counts[a, b] += np.int32(both)


@njit(cache=True, parallel=True)
def count_by_histogram(
    signals: NDArray[np.uint8],
    order: NDArray[np.int64],
    tiles: NDArray[np.int64],
    pairs: NDArray[np.int64],
    counts: NDArray[np.int32],
) -> None:
    """Do the same as `count_by_planes`, at a cost that does not grow with the number of levels."""
    workers = counts.shape[0]
    for worker in prange(workers):
        gathered = np.empty((signals.shape[0], TILE), dtype=np.uint8)
        for tile in range(worker, tiles.shape[0], workers):
            group, begin, end = tiles[tile, GROUP], tiles[tile, BEGIN], tiles[tile, END]
            for i in range(signals.shape[0]):
                for offset in range(end - begin):
                    gathered[i, offset] = signals[i, order[begin + offset]]
            for pair in range(pairs.shape[0]):
                first, second = gathered[pairs[pair, 0]], gathered[pairs[pair, 1]]
                table = counts[worker, pair, group]
                for offset in range(end - begin):
                    table[first[offset], second[offset]] += np.int32(1)
