"""Sorting networks: a fixed list of compare-and-swap steps that sorts any n values."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedmerit.types import freeze


@lru_cache(maxsize=64)
def sorting_network(size: int) -> NDArray[np.int64]:
    """Return Batcher's merge-exchange network for `size` values, (steps, 2), low index first.

    Knuth, The Art of Computer Programming, volume 3, algorithm 5.2.2M: about n log2(n)^2 / 4
    steps, for any n.
    """
    steps: list[tuple[int, int]] = []
    top = 1 << max(size - 1, 1).bit_length() - 1
    p = top
    while p > 0:
        q, r, distance = top, 0, p
        while True:
            steps.extend((i, i + distance) for i in range(size - distance) if i & p == r)
            if q == p:
                break
            distance, q, r = q - p, q // 2, p
        p //= 2
    return freeze(np.array(steps, dtype=np.int64).reshape(-1, 2))
