"""What public information does not explain of an update: signs of robust residuals.

Inside a stratum an update is regressed on the public vectors and a constant by least absolute
deviations. Squares would not do: a free rider who adds large noise to some parameters and tiny
noise to others would move a least-squares slope by more than the tiny noise, and all riders by the
same public vector.

The public vectors are the same for all clients, so a block of clients is fitted together: the
innermost loops run over clients, and products of public vectors are computed once.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

NEGATIVE, TIE, POSITIVE = 0, 1, 2
Matrix = NDArray[np.float64]
_REWEIGHTINGS = 7
_FIT_SAMPLE = 256
_RELATIVE_FLOOR = 1e-9
_DEPENDENT = 1e-12
_BLOCK = 32  # clients that are fitted together


@njit(cache=True, parallel=True)
def residual_signs(
    updates: NDArray[np.floating],
    public: NDArray[np.floating],
    starts: NDArray[np.int64],
    precision: float,
    signals: NDArray[np.uint8],
    deviations: Matrix,
) -> None:
    """Write the sign of each residual, and how much of each report is left unexplained.

    Parameters
    ----------
    updates : (k, d)
    public : (r, d)
        What every client knows.
    starts
        Stratum s holds the parameters ``starts[s]:starts[s + 1]``.
    precision : float
        What is smaller than this share of the numbers it was computed from is a tie, not a signal.
    signals : (k, d), output
        NEGATIVE, TIE or POSITIVE.
    deviations : (k, strata, 2), output
        Sums of absolute residuals, and of absolute deviations from the stratum's median.
    """
    clients, known = updates.shape[0], public.shape[0]
    for s in prange(starts.shape[0] - 1):
        begin, end = starts[s], starts[s + 1]
        size = end - begin
        deviations[:, s] = 0.0
        if size == 0:
            continue
        columns = np.ones((known + 1, size))
        for r in range(known):
            for n in range(size):
                columns[r, n] = public[r, begin + n]
        stride = (size + _FIT_SAMPLE - 1) // _FIT_SAMPLE
        sample = columns[:, ::stride].copy()
        for first in range(0, clients, _BLOCK):
            last = min(first + _BLOCK, clients)
            targets = np.empty((sample.shape[1], last - first))
            for i in range(first, last):
                for n in range(targets.shape[0]):
                    targets[n, i - first] = updates[i, begin + n * stride]
            coefficients = least_absolute(sample, targets)
            for i in range(first, last):
                _signs_of_row(
                    updates[i, begin:end],
                    columns,
                    coefficients[:, i - first].copy(),
                    np.median(targets[:, i - first]),
                    precision,
                    signals[i, begin:end],
                    deviations[i, s],
                )


@njit(cache=True)
def _signs_of_row(
    update: NDArray[np.floating],
    columns: Matrix,
    coefficients: NDArray[np.float64],
    middle: float,
    precision: float,
    signals: NDArray[np.uint8],
    deviations: NDArray[np.float64],
) -> None:
    size, count = update.shape[0], columns.shape[0]
    rest, magnitude = np.empty(size), np.empty(size)
    for n in range(size):
        rest[n] = update[n]
        magnitude[n] = abs(rest[n])
    # Three columns at a time: most of the work is loading and storing what is left.
    threes = count - count % 3
    for r in range(0, threes, 3):
        a, b, c = coefficients[r], coefficients[r + 1], coefficients[r + 2]
        first, second, third = columns[r], columns[r + 1], columns[r + 2]
        for n in range(size):
            x, y, z = a * first[n], b * second[n], c * third[n]
            rest[n] -= x + y + z
            magnitude[n] += abs(x) + abs(y) + abs(z)
    for r in range(threes, count):
        column, coefficient = columns[r], coefficients[r]
        for n in range(size):
            x = coefficient * column[n]
            rest[n] -= x
            magnitude[n] += abs(x)
    left, spread = 0.0, 0.0
    for n in range(size):
        tie = abs(rest[n]) <= precision * magnitude[n]
        signals[n] = TIE if tie else (POSITIVE if rest[n] > 0.0 else NEGATIVE)
        rest[n] = 0.0 if tie else abs(rest[n])
        magnitude[n] = abs(update[n] - middle)
    for n in range(size):
        left += rest[n]
        spread += magnitude[n]
    deviations[0], deviations[1] = left, spread


@njit(cache=True)
def least_absolute(columns: Matrix, targets: Matrix) -> Matrix:
    """Fit each target by the columns, by iteratively reweighted least squares.

    Parameters
    ----------
    columns : (c, n)
    targets : (n, lanes)

    Returns
    -------
    (c, lanes)
        Coefficients; 0 for columns that depend on earlier ones.
    """
    count, size = columns.shape
    lanes = targets.shape[1]
    scaled, scales = np.empty((count, size)), np.empty(count)
    for a in range(count):
        mean = np.abs(columns[a]).mean()
        scales[a] = mean if mean > 0.0 else 1.0
        scaled[a] = columns[a] / scales[a]
    products = _products(scaled)
    floors = np.zeros(lanes)
    for n in range(size):
        floors += np.abs(targets[n])
    for i in range(lanes):
        # Of a target of zeros any weights find the coefficients, which are zeros.
        floors[i] = _RELATIVE_FLOOR * floors[i] / size if floors[i] > 0.0 else 1.0
    normal = np.empty((products.shape[0], lanes))
    coefficients = np.empty((count, lanes))
    # The first fit is plain least squares, with the same equations for all.
    for row in range(products.shape[0]):
        normal[row] = products[row].sum()
    _accumulate(scaled, targets, coefficients)
    _solve(normal, coefficients)
    weights, weighted = np.empty((size, lanes)), np.empty((size, lanes))
    turned = targets.T.copy()
    for _ in range(_REWEIGHTINGS):
        _reweigh(scaled, turned, coefficients, floors, weights, weighted)
        _accumulate(products, weights, normal)
        _accumulate(scaled, weighted, coefficients)
        _solve(normal, coefficients)
    for a in range(count):
        coefficients[a] /= scales[a]
    return coefficients


@njit(cache=True)
def _products(columns: Matrix) -> Matrix:
    """Return the products of columns a and b <= a, row a (a + 1) / 2 + b."""
    count, size = columns.shape
    products = np.empty((count * (count + 1) // 2, size))
    for a in range(count):
        for b in range(a + 1):
            row = products[a * (a + 1) // 2 + b]
            for n in range(size):
                row[n] = columns[a, n] * columns[b, n]
    return products


@njit(cache=True)
def _accumulate(left: Matrix, right: Matrix, into: Matrix) -> None:
    """Write ``left @ right``, two rows and four terms at a time, always in the same order."""
    rows, size = left.shape
    lanes = right.shape[1]
    fours = size - size % 4
    into[:] = 0.0
    for row in range(0, rows, 2):
        other = min(row + 1, rows - 1)  # an odd last row is computed twice, into a spare line
        line, second, total = left[row], left[other], into[row]
        beside = into[other] if other > row else np.zeros(lanes)
        for n in range(0, fours, 4):
            a, b, c, d = line[n], line[n + 1], line[n + 2], line[n + 3]
            p, q, s, t = second[n], second[n + 1], second[n + 2], second[n + 3]
            w, x, y, z = right[n], right[n + 1], right[n + 2], right[n + 3]
            for i in range(lanes):
                total[i] += (a * w[i] + b * x[i]) + (c * y[i] + d * z[i])
                beside[i] += (p * w[i] + q * x[i]) + (s * y[i] + t * z[i])
        for n in range(fours, size):
            a, p, w = line[n], second[n], right[n]
            for i in range(lanes):
                total[i] += a * w[i]
                beside[i] += p * w[i]


@njit(cache=True, error_model="numpy")  # no divisor is zero; checks would forbid vectors
def _reweigh(
    columns: Matrix,
    targets: Matrix,
    coefficients: Matrix,
    floors: NDArray[np.float64],
    weights: Matrix,
    weighted: Matrix,
) -> None:
    """Weigh each sample by one over its residual; here `targets` are (lanes, n)."""
    lanes, size = targets.shape
    count = columns.shape[0]
    threes = count - count % 3
    rest = np.empty(size)
    for i in range(lanes):
        target, floor = targets[i], floors[i]
        for n in range(size):
            rest[n] = target[n]
        for a in range(0, threes, 3):
            p, q, s = coefficients[a, i], coefficients[a + 1, i], coefficients[a + 2, i]
            x, y, z = columns[a], columns[a + 1], columns[a + 2]
            for n in range(size):
                rest[n] -= p * x[n] + q * y[n] + s * z[n]
        for a in range(threes, count):
            p, x = coefficients[a, i], columns[a]
            for n in range(size):
                rest[n] -= p * x[n]
        for n in range(size):
            rest[n] = 1.0 / max(abs(rest[n]), floor)
        for n in range(size):
            weights[n, i] = rest[n]
            weighted[n, i] = rest[n] * target[n]


@njit(cache=True, error_model="numpy")  # no divisor is zero; checks would forbid vectors
def _solve(normal: Matrix, right: Matrix) -> None:
    """Solve the normal equations of all lanes by Cholesky's factorisation, in place.

    `normal` holds lower triangles, row a (a + 1) / 2 + b; dependent columns get 0.
    """
    count, lanes = right.shape
    inverse = np.empty((count, lanes))
    rest = np.empty(lanes)
    for a in range(count):
        row = a * (a + 1) // 2
        for b in range(a):
            rest[:] = normal[row + b]
            for c in range(b):
                left, other = normal[row + c], normal[b * (b + 1) // 2 + c]
                for i in range(lanes):
                    rest[i] -= left[i] * other[i]
            target, factor = normal[row + b], inverse[b]
            for i in range(lanes):
                target[i] = rest[i] * factor[i]
        rest[:] = normal[row + a]
        for c in range(a):
            left = normal[row + c]
            for i in range(lanes):
                rest[i] -= left[i] * left[i]
        for i in range(lanes):
            independent = rest[i] > _DEPENDENT * normal[row + a, i]
            inverse[a, i] = 1.0 / np.sqrt(rest[i]) if independent else 0.0
    for a in range(count):
        for c in range(a):
            left, known = normal[a * (a + 1) // 2 + c], right[c]
            for i in range(lanes):
                right[a, i] -= left[i] * known[i]
        right[a] *= inverse[a]
    for a in range(count - 1, -1, -1):
        for c in range(a + 1, count):
            left, known = normal[c * (c + 1) // 2 + a], right[c]
            for i in range(lanes):
                right[a, i] -= left[i] * known[i]
        right[a] *= inverse[a]
