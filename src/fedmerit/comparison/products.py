"""Inner products and cosines of updates: what scores that look at directions are made of."""

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import UpdatesError
from fedmerit.kernels.products import inner_products
from fedmerit.types import FloatArray, RoundInputs, Signals

Matrix = NDArray[np.float64]


def float_updates(inputs: RoundInputs, method: str) -> FloatArray:
    """Return the updates, which must be floats: levels have no length and no direction."""
    if isinstance(inputs.updates, Signals):
        raise UpdatesError(f"{method} needs float updates, got signals; use method='exact'")
    return inputs.updates


def gram(rows: FloatArray) -> Matrix:
    """Inner products of all pairs of rows, (k, k)."""
    clients = rows.shape[0]
    upper = np.triu_indices(clients)
    values = np.empty(len(upper[0]))
    inner_products(rows, np.column_stack(upper).astype(np.int64), values)
    full = np.empty((clients, clients))
    full[upper] = full[upper[::-1]] = values
    return full


def cosines(products: Matrix, norms: NDArray[np.float64] | None = None) -> Matrix:
    """Cosines of all pairs from their inner products; 0 where a vector is zero.

    `norms` are given where a caller takes some vectors for zero.
    """
    if norms is None:
        norms = np.sqrt(np.diagonal(products))
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    result: Matrix = products * np.outer(inverse, inverse)
    return result


def cosines_to_mean(products: Matrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine of every row with the weighted sum of the rows; 0 where either is zero."""
    along = products @ weights
    norms = np.sqrt(np.diagonal(products) * max(float(weights @ along), 0.0))
    return np.divide(along, norms, out=np.zeros_like(along), where=norms > 0)


def off_diagonal(matrix: Matrix) -> Matrix:
    """Copy with NaN on the diagonal: nobody is compared with itself."""
    result = matrix.copy()
    np.fill_diagonal(result, np.nan)
    return result
