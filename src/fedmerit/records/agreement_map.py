"""Who agrees with whom in a round, in one byte per pair: enough to draw, small enough to keep.

Pairs (i, j) with i < j stand row by row. A byte b, read as a signed number, means the agreement
``sign(b) (b / 127)^2``; -128 means that the pair was not compared. Square roots are stored because
most agreement is small: the step is below 0.0001 near zero and 0.016 near one.
"""

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import InvalidInputError

_LARGEST = 127
_UNKNOWN = -128
# Of more clients no picture shows who agrees with whom, and the pairs would outweigh the record.
MOST_CLIENTS = 500


def pack_agreement(pairwise: NDArray[np.float64]) -> bytes:
    """Pack a (k, k) matrix of agreement in [-1, 1]; nothing if no pair was compared.

    Nothing either for more than `MOST_CLIENTS` clients.

    Where the two directions of a pair differ, as with random peers, their mean is kept.

    Examples
    --------
    >>> matrix = np.array([[np.nan, 0.25], [0.25, np.nan]])
    >>> list(pack_agreement(matrix))
    [64]
    """
    if len(pairwise) > MOST_CLIENTS:
        return b""
    both = np.stack([pairwise, pairwise.T])
    known = ~np.isnan(both)
    total = np.where(known, both, 0.0).sum(axis=0)
    mean = np.clip(total / np.maximum(known.sum(axis=0), 1), -1.0, 1.0)
    codes = np.rint(_LARGEST * np.sign(mean) * np.sqrt(np.abs(mean)))
    codes[~known.any(axis=0)] = _UNKNOWN
    upper = codes[np.triu_indices(len(pairwise), 1)].astype(np.int8)
    return b"" if (upper == _UNKNOWN).all() else upper.tobytes()


def clients_in(packed: bytes) -> int:
    """Return how many clients the packed pairs are of; the first ones of their round."""
    clients = (1 + isqrt(1 + 8 * len(packed))) // 2
    if clients * (clients - 1) // 2 != len(packed):
        raise InvalidInputError(
            f"agreement must have one byte per pair of clients, got {len(packed)} bytes"
        )
    return clients if packed else 0


def unpack_agreement(packed: bytes) -> NDArray[np.float64]:
    """Return the (k, k) matrix; NaN on the diagonal and where a pair was not compared."""
    clients = clients_in(packed)
    codes = np.frombuffer(packed, dtype=np.int8)
    values = np.sign(codes) * (codes / _LARGEST) ** 2
    values[codes == _UNKNOWN] = np.nan
    matrix = np.full((clients, clients), np.nan)
    upper = np.triu_indices(clients, 1)
    matrix[upper] = values
    matrix.T[upper] = values
    return matrix
