"""How often two clients report levels (a, b) on the same parameter, for many pairs at once.

Parameters are grouped (two random halves; later halves times strata) and cut into tiles: `order`
lists the parameters group by group, and a tile is a piece of that list inside one group. While a
tile of all clients' signals is in cache, every pair is counted. Two ways to count:

- few levels: one bit plane per client and level, then AND and population count;
- many levels: a plain histogram of level pairs.

Tiles are dealt out to `counts.shape[0]` workers, each with counters of its own, so that no thread
waits for another. The caller adds the workers' counters up. (Histograms are too large for that; see
there.)
"""

from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.bits import popcount
from fedmerit.kernels.layout import take_columns
from fedmerit.kernels.threads import deal

MAX_PLANE_LEVELS = 16
TILE = 16384
HISTOGRAM_TILE = 131072
_TILE_WORDS = TILE // 64
GROUP, BEGIN, END = 0, 1, 2


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
    workers = counts.shape[0]

    def count(first: int, last: int) -> None:
        for worker in range(first, last):
            counts[worker] = 0
            gathered = np.empty(TILE, dtype=np.uint8)
            own = tiles[worker::workers].copy()
            _count_tiles(
                signals, rows, order, own, pairs, gathered, gathered.view(np.uint64), counts[worker]
            )

    deal(count, workers)


@njit(cache=True, nogil=True)
def _count_tiles(
    signals: NDArray[np.uint8],
    rows: NDArray[np.int64],
    order: NDArray[np.int64],
    tiles: NDArray[np.int64],
    pairs: NDArray[np.int64],
    gathered: NDArray[np.uint8],
    eights: NDArray[np.uint64],
    counts: NDArray[np.int32],
) -> None:
    """Add the counts of some tiles; `gathered`, and the same as `eights`, is room to work in."""
    levels = counts.shape[2]
    planes = np.empty((rows.shape[0], levels, _TILE_WORDS), dtype=np.uint64)
    marginals = np.empty((rows.shape[0], levels), dtype=np.int32)
    for tile in range(tiles.shape[0]):
        group, begin, end = tiles[tile, GROUP], tiles[tile, BEGIN], tiles[tile, END]
        size = end - begin
        words = (size + 63) // 64
        for offset in range(size, words * 64):
            gathered[offset] = 0
        positions = order[begin:end]
        for i in range(rows.shape[0]):
            row = signals[rows[i]]
            for offset in range(size):
                gathered[offset] = row[positions[offset]]
            _fill_planes(eights, size, planes[i], marginals[i])
        for pair in range(pairs.shape[0]):
            i, j = pairs[pair, 0], pairs[pair, 1]
            _count_planes(
                planes[i], planes[j], words, marginals[i], marginals[j], counts[pair, group]
            )


@njit(cache=True, nogil=True)
def _fill_planes(
    eights: NDArray[np.uint64],
    size: int,
    planes: NDArray[np.uint64],
    marginals: NDArray[np.int32],
) -> None:
    """Write one bit plane per level, and how many bits each has."""
    levels = planes.shape[0]
    words = (size + 63) // 64
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


@njit(cache=True, nogil=True)
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
    counts[0] = 0
    for group, begin, end in tiles:
        gathered = np.empty((rows.shape[0], end - begin), dtype=np.uint8)
        take_columns([signals[row] for row in rows], order[begin:end], gathered)
        count = partial(_count_cells, gathered, pairs, group, counts[0])
        deal(count, pairs.shape[0])


@njit(cache=True, nogil=True)
def _count_cells(
    gathered: NDArray[np.uint8],
    pairs: NDArray[np.int64],
    group: int,
    counts: NDArray[np.int32],
    begin: int,
    end: int,
) -> None:
    for pair in range(begin, end):
        first, second = gathered[pairs[pair, 0]], gathered[pairs[pair, 1]]
        table = counts[pair, group]
        for offset in range(first.shape[0]):
            table[first[offset], second[offset]] += np.int32(1)
