"""An order of the clients of a round in which those who agree stand side by side."""

from itertools import product

import numpy as np
from numpy.typing import NDArray


def clique_order(agreement: NDArray[np.float64]) -> list[int]:
    """Order clients by average-linkage clustering of their pairwise agreement.

    The two groups that agree most on average are joined, again and again; each time they are put
    next to each other such that the ends that meet agree most. A clique ends up in one block.

    Examples
    --------
    >>> matrix = np.array([[0, 0, 0.9, 0], [0, 0, 0, 0.8], [0.9, 0, 0, 0], [0, 0.8, 0, 0]])
    >>> sorted(map(sorted, (clique_order(matrix)[:2], clique_order(matrix)[2:])))
    [[0, 2], [1, 3]]
    """
    clients = len(agreement)
    if clients < 2:
        return list(range(clients))
    known = np.where(np.isnan(agreement), 0.0, agreement)
    groups = [[client] for client in range(clients)]
    sizes = np.ones(clients)
    linkage = known.copy()
    np.fill_diagonal(linkage, -np.inf)
    for _ in range(clients - 1):
        first, second = divmod(int(np.argmax(linkage)), clients)
        groups[first] = _joined(groups[first], groups[second], known)
        merged = sizes[first] * linkage[first] + sizes[second] * linkage[second]
        merged /= sizes[first] + sizes[second]
        sizes[first] += sizes[second]
        linkage[first], linkage[:, first] = merged, merged
        linkage[second], linkage[:, second] = -np.inf, -np.inf
        linkage[first, first] = -np.inf
        left = first
    return groups[left]


def _joined(first: list[int], second: list[int], agreement: NDArray[np.float64]) -> list[int]:
    choices = product((first, first[::-1]), (second, second[::-1]))
    before, after = max(choices, key=lambda pair: agreement[pair[0][-1], pair[1][0]])
    return before + after
