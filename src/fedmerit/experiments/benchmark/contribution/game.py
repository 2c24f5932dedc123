"""What a set of clients is worth in one round: test accuracy with the mean of their updates."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedmerit.simulation.training.network import Network, Vector

_SAMPLES = 50  # looked at together: all sets' hidden units of so many fit into a cache


class PerceptronGame:
    """Accuracy of an MLP with one hidden layer after adding the mean update of a set of clients.

    The first layer is linear in the update: its products with the inputs are made once per client,
    and all 2^k sets are small combinations of them.
    """

    def __init__(
        self,
        network: Network,
        model: Vector,
        updates: NDArray[np.float32],
        x: NDArray[np.float32],
        y: NDArray[np.int64],
    ) -> None:
        shapes = list(network.shapes.values())
        cuts = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1]
        rows = np.vstack([model, updates])
        first, first_bias, last, last_bias = (
            piece.reshape(len(rows), *shape)
            for piece, shape in zip(np.split(rows, cuts, axis=1), shapes, strict=True)
        )
        sets, shares = _shares(len(updates))
        last = np.tensordot(shares, last, axes=1).transpose(0, 2, 1)
        last_bias = (shares @ last_bias)[:, np.newaxis]
        hits = np.zeros(len(sets), dtype=np.int64)
        flat = x.reshape(len(x), -1)
        for start in range(0, len(y), _SAMPLES):
            part = slice(start, start + _SAMPLES)
            own = flat[part] @ first.transpose(0, 2, 1) + first_bias[:, np.newaxis]
            hidden = np.tensordot(shares, own, axes=1)
            logits = np.maximum(hidden, 0, out=hidden) @ last + last_bias
            hits += (logits.argmax(axis=2) == y[part]).sum(axis=1)
        self._worth: dict[tuple[int, ...], float] = dict(
            zip(sets, (hits / len(y)).tolist(), strict=True)
        )

    def __call__(self, chosen: tuple[int, ...]) -> float:
        """Return the accuracy with the mean update of `chosen`, clients in ascending order."""
        return float(self._worth[chosen])


def _shares(clients: int) -> tuple[list[tuple[int, ...]], NDArray[np.float32]]:
    """Return all sets, and per set the factors of the model (always 1) and of every update."""
    sets = [s for size in range(clients + 1) for s in combinations(range(clients), size)]
    shares = np.zeros((len(sets), clients + 1), dtype=np.float32)
    shares[:, 0] = 1
    for row, chosen in zip(shares, sets, strict=True):
        row[[client + 1 for client in chosen]] = 1 / max(len(chosen), 1)
    return sets, shares
