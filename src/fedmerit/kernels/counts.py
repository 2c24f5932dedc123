"""How often two clients report levels (a, b) on the same parameter, for many pairs at once.

Parameters are grouped (two random halves; later halves times strata) and cut into tiles: `order`
lists the parameters group by group, and a tile is a piece of that list inside one group. While a
tile of all clients' signals is in cache, every pair is counted. Two ways to count:

- few levels: one bit plane per client and level, then AND and population count;
- many levels: a plain histogram of level pairs.

Tiles are dealt out to `counts.shape[0]` workers, each with counters of its own: a single parallel
region, in which no thread waits for another. The caller adds the workers' counters up. (Histograms
are too large for that; see there.)
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from fedmerit.kernels.bits import popcount

MAX_PLANE_LEVELS = 16
TILE = 16384
HISTOGRAM_TILE = 131072
_TILE_WORDS = TILE // 64
GROUP, BEGIN, END = 0, 1, 2


@njit(cache=True, parallel=True)
def count_by_planes(
    signals: NDArray[np.uint8],
    rows: NDArray[np.int64],
    order: NDArray[np.int64],
    tiles: NDArray[np.int64],
    pairs: NDArray[np.int64],
    counts: NDArray[np.int32],
) -> None:
    """Write joint counts into `counts`, (workers, pairs, groups, levels, levels).

    `rows` are the clients that occur in the pairs, and `pairs` holds positions in `rows`. `tiles`
    has one row (group, begin, end) per tile; begin and end are positions in `order`.
    """
    workers, levels = counts.shape[0], counts.shape[3]
    for worker in prange(workers):
        counts[worker] = 0
        planes = np.empty((rows.shape[0], levels, _TILE_WORDS), dtype=np.uint64)
        marginals = np.empty((rows.shape[0], levels), dtype=np.int32)
        gathered = np.empty(TILE, dtype=np.uint8)
        for tile in range(worker, tiles.shape[0], workers):
            group, begin, end = tiles[tile, GROUP], tiles[tile, BEGIN], tiles[tile, END]
            words = (end - begin + 63) // 64
            for i in range(rows.shape[0]):
                _gather(signals[rows[i]], order[begin:end], gathered)
                _fill_planes(gathered, end - begin, planes[i], marginals[i])
            for pair in range(pairs.shape[0]):
                i, j = pairs[pair, 0], pairs[pair, 1]
                _count_planes(
                    planes[i],
                    planes[j],
                    words,
                    marginals[i],
                    marginals[j],
                    counts[worker, pair, group],
                )


@njit(cache=True)
def _gather(
    signals: NDArray[np.uint8], positions: NDArray[np.int64], gathered: NDArray[np.uint8]
) -> None:
    size = positions.shape[0]
    for offset in range(size):
        gathered[offset] = signals[positions[offset]]
    gathered[size : (size + 63) // 64 * 64] = 0


@njit(cache=True)
def _fill_planes(
    gathered: NDArray[np.uint8],
    size: int,
    planes: NDArray[np.uint64],
    marginals: NDArray[np.int32],
) -> None:
    """Write one bit plane per level, and how many bits each has."""
    levels = planes.shape[0]
    words = (size + 63) // 64
    eights = gathered.view(np.uint64)
    digits = 1
    while 1 << digits < levels:
        digits += 1
    # First the binary digits of the levels as planes: multiplying eight bytes that are 0 or 1 by
    # this constant collects them, in order, in the highest byte.
    binary = np.empty((digits, words), dtype=np.uint64)
    for digit in range(digits):
        for w in range(words):
            word = np.uint64(0)
            for byte in range(8):
                ones = (eights[8 * w + byte] >> np.uint64(digit)) & np.uint64(0x0101010101010101)
                packed = (ones * np.uint64(0x0102040810204080)) >> np.uint64(56)
                word |= packed << np.uint64(8 * byte)
            binary[digit, w] = word
    unused = np.uint64(words * 64 - size)
    for level in range(levels):
        plane = planes[level]
        for w in range(words):
            plane[w] = ~np.uint64(0)
        plane[words - 1] >>= unused  # what lies beyond the tile belongs to no level
        for digit in range(digits):
            flip = np.uint64(0) if level >> digit & 1 else ~np.uint64(0)
            for w in range(words):
                plane[w] &= binary[digit, w] ^ flip
        total = np.uint64(0)
        for w in range(words):
            total += popcount(plane[w])
        marginals[level] = total


@njit(cache=True)
def _count_planes(
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
    words: int,
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> None:
    """Count all cells but the last row and column; the marginals give those."""
    last = counts.shape[0] - 1
    corner = columns[last]
    for b in range(last):
        counts[last, b] += columns[b]
    for a in range(last):
        rest = rows[a]
        for b in range(last):
            both = np.uint64(0)
            for w in range(words):
                both += popcount(first[a, w] & second[b, w])
            cell = np.int32(both)
            counts[a, b] += cell
            counts[last, b] -= cell
            rest -= cell
        counts[a, last] += rest
        corner -= rest
    counts[last, last] += corner


@njit(cache=True, parallel=True)
def count_by_histogram(
    signals: NDArray[np.uint8],
    rows: NDArray[np.int64],
    order: NDArray[np.int64],
    tiles: NDArray[np.int64],
    pairs: NDArray[np.int64],
    counts: NDArray[np.int32],
) -> None:
    """Do the same as `count_by_planes`, at a cost that does not grow with the number of levels.

    A table of many levels is larger than the tile that is counted into it, so here the pairs are
    dealt out, and one worker's counters, (1, pairs, ...), serve all.
    """
    gathered = np.empty((rows.shape[0], HISTOGRAM_TILE), dtype=np.uint8)
    for pair in prange(pairs.shape[0]):
        counts[0, pair] = 0
    for tile in range(tiles.shape[0]):
        group, begin, end = tiles[tile, GROUP], tiles[tile, BEGIN], tiles[tile, END]
        for i in prange(rows.shape[0]):
            source, target = signals[rows[i]], gathered[i]
            for offset in range(end - begin):
                target[offset] = source[order[begin + offset]]
        for pair in prange(pairs.shape[0]):
            first, second = gathered[pairs[pair, 0]], gathered[pairs[pair, 1]]
            table = counts[0, pair, group]
            for offset in range(end - begin):
                table[first[offset], second[offset]] += np.int32(1)
