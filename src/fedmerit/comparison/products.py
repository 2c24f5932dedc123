"""Inner products and cosines of updates, and of their private parts.

Private is what regression on what is public, and then on the client's own earlier reports, leaves
of a report. In float64 the cancellation leaves about 1e-8 of a report's norm, far below float32
reports' own rounding.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import UpdatesError
from fedmerit.kernels.products import inner_products
from fedmerit.kernels.spans import make_axes, take_off_all, take_off_own
from fedmerit.kernels.threads import deal
from fedmerit.types import FloatArray, RoundInputs, Signals

Matrix = NDArray[np.float64]
# A vector that others span but for this share is spanned by them.
_DEPENDENT = 1e-6
# What is left of an earlier report that was itself public is rounding.
_PUBLIC_PAST = 1e-5


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


def private_parts(inputs: RoundInputs, starts: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Return what is not public of each report, and what of that is not of its own past either.

    Both are (k, d). The round is laid out in strata; regressions are made stratum by stratum.
    """
    updates, public, previous = inputs.updates, inputs.public, inputs.previous
    assert not isinstance(updates, Signals)
    unknown: FloatArray = np.empty_like(updates)
    private: FloatArray = unknown if previous is None else np.empty_like(updates)

    def regress(first: int, last: int) -> None:
        for begin, end in pairwise(starts[first : last + 1]):
            axes = np.ones((1 if public is None else 1 + len(public), end - begin))
            if public is not None:
                axes[1:] = public[:, begin:end]
            make_axes(axes, _DEPENDENT)
            left = updates[:, begin:end].astype(np.float64)
            take_off_all(left, axes)
            unknown[:, begin:end] = left
            if previous is not None:
                past = previous[:, :, begin:end].astype(np.float64)
                take_off_own(left, past, axes, _PUBLIC_PAST, _DEPENDENT)
                private[:, begin:end] = left

    deal(regress, len(starts) - 1)
    return unknown, private


def private_cosines(
    parts: FloatArray, whole: Matrix, rounding: float
) -> tuple[Matrix, NDArray[np.float64]]:
    """Return the cosines of private parts and their share of the reports.

    `whole` are the inner products of the reports; of a part below the share `rounding` nothing is
    left.
    """
    private = gram(parts)
    norms, sizes = np.sqrt(np.diagonal(whole)), np.sqrt(np.diagonal(private))
    sizes = np.where(sizes > rounding * norms, sizes, 0.0)
    share = np.divide(sizes, norms, out=np.zeros_like(norms), where=norms > 0)
    return cosines(private, sizes), share
