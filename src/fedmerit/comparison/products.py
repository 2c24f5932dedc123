"""Inner products and cosines of updates, and of their private parts.

Private is what neither the public nor a client's own past explains of its report. Only inner
products of private parts are needed, and these follow from the inner products of the reports: for
rows that are regressed on a basis B, the products of what is left are the Schur complement
``G - G_B C^-1 G_B'`` with C the products of the basis. In float64 the cancellation leaves about
1e-8 of a report's norm, far below float32 reports' own rounding.
"""

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import UpdatesError
from fedmerit.kernels.private import stratum_products
from fedmerit.kernels.products import inner_products
from fedmerit.types import FloatArray, RoundInputs, Signals

Matrix = NDArray[np.float64]
# Strata are worked on in batches of about this size.
_BATCH_BYTES = 64 * 2**20
# A basis vector of which less than this share (squared) is its own is left out.
_DEPENDENT = 1e-12
# What is left of a previous report that was itself public is rounding.
_PUBLIC_PAST = 1e-10


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


def round_products(inputs: RoundInputs, starts: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
    """Return the inner products of the updates, and those of their private parts, (k, k) each.

    The round is laid out in strata; regressions are made stratum by stratum.
    """
    updates = inputs.updates
    assert not isinstance(updates, Signals)
    clients = inputs.clients
    none = np.empty((0, inputs.parameters), dtype=updates.dtype)
    public = none if inputs.public is None else inputs.public
    previous = none if inputs.previous is None else inputs.previous
    rows = 1 + len(public) + clients + len(previous)
    batch = max(1, _BATCH_BYTES // (8 * rows**2))
    whole, private = np.zeros((clients, clients)), np.zeros((clients, clients))
    for begin in range(0, len(starts) - 1, batch):
        part = starts[begin : begin + batch + 1]
        products = np.empty((len(part) - 1, rows, rows))
        stratum_products(updates, previous, public, part, products)
        for table in products:
            reports = slice(1 + len(public), 1 + len(public) + clients)
            whole += table[reports, reports]
            private += private_products(table, 1 + len(public), clients)
    return whole, private


def private_products(products: Matrix, basis: int, clients: int) -> Matrix:
    """Return the (k, k) inner products of private parts in one stratum.

    `products` are those of the `basis` vectors, the reports and, if there are any, the reports of
    the round before.
    """
    size = np.diagonal(products)[basis:]
    left = _without_basis(products, basis)
    if len(products) == basis + clients:
        return left
    now, then = slice(0, clients), slice(clients, None)
    own = np.diagonal(left)[then]
    worked_before = own > _PUBLIC_PAST * size[then]
    slope = np.zeros(clients)
    np.divide(np.diagonal(left[now, then]), own, out=slope, where=worked_before)
    crossed = left[now, then] * slope
    parts: Matrix = left[now, now] - crossed - crossed.T + left[then, then] * np.outer(slope, slope)
    return parts


def _without_basis(products: Matrix, basis: int) -> Matrix:
    """Return the products of what regression on the first `basis` rows leaves of the others."""
    table = products.copy()
    original = np.diagonal(products)
    for b in range(basis):
        if table[b, b] > _DEPENDENT * original[b]:
            table[b + 1 :, b + 1 :] -= np.outer(table[b + 1 :, b], table[b, b + 1 :]) / table[b, b]
    return table[basis:, basis:]
