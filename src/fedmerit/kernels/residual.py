"""What public information does not explain of an update: signs of robust residuals.

Inside a stratum an update is regressed on the public vectors and a constant by least absolute
deviations. Squares would not do: a free rider who adds large noise to some parameters and tiny
noise to others would move a least-squares slope by more than the tiny noise, and all riders by the
same public vector.

Halves of a stratum are fitted apart: a half is scored with the signs that the other half shows, and
what one fit of both left in a report would show in both.

The public vectors are the same for all clients, so a block of clients is fitted together, and
products of these vectors are computed once. Strata are dealt out to threads; numbers of any type
become float64 stratum by stratum, so that one version of each kernel is enough.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.products import accumulate, room_for
from fedmerit.kernels.threads import deal

NEGATIVE, TIE, POSITIVE = 0, 1, 2
Matrix = NDArray[np.float64]
_REWEIGHTINGS = 7
_FIT_SAMPLE = 256
_RELATIVE_FLOOR = 1e-9
_DEPENDENT = 1e-12
_BLOCK = 32  # clients that are fitted together


def residual_signs(
    updates: NDArray[np.floating],
    axes: Matrix,
    starts: NDArray[np.int64],
    precision: float,
    signals: NDArray[np.uint8],
    deviations: Matrix,
) -> None:
    """Write the sign of each residual, and how much of each report is left unexplained.

    Parameters
    ----------
    updates : (k, d)
    axes : (r, d)
        What every client knows: see `fedmerit.kernels.spans.public_axes`.
    starts
        Where what is fitted together begins: part s is ``starts[s]:starts[s + 1]``.
    precision : float
        What is smaller than this share of the numbers it was computed from is a tie, not a signal.
        So is an exact zero of a report, such as a row that nobody touched: what is left of it is
        the fit, which the public knows.
    signals : (k, d), output
        NEGATIVE, TIE or POSITIVE.
    deviations : (k, parts, 2), output
        Sums of absolute residuals, and of absolute deviations from the part's median.
    """

    def fit(s: int) -> None:
        begin, end = int(starts[s]), int(starts[s + 1])
        if begin == end:
            deviations[:, s] = 0.0
            return
        columns = np.ascontiguousarray(axes[:, begin:end])
        stride = -(-(end - begin) // _FIT_SAMPLE)
        sample = np.ascontiguousarray(columns[:, ::stride])
        for first in range(0, updates.shape[0], _BLOCK):
            reports = updates[first : first + _BLOCK, begin:end].astype(np.float64)
            targets = np.ascontiguousarray(reports[:, ::stride])
            coefficients = least_absolute(sample, targets)
            middles = _medians(targets)
            place = (first, begin, s)
            _write_signs(
                reports, columns, coefficients, middles, precision, place, signals, deviations
            )

    def fit_all(first: int, last: int) -> None:
        for s in range(first, last):
            fit(s)

    deal(fit_all, starts.shape[0] - 1)


def _medians(rows: Matrix) -> NDArray[np.float64]:
    """Return the median of each row."""
    ordered, size = np.sort(rows, axis=1), rows.shape[1]
    medians: NDArray[np.float64] = (ordered[:, (size - 1) // 2] + ordered[:, size // 2]) / 2
    return medians


@njit(cache=True, nogil=True)
def _write_signs(
    reports: Matrix,
    columns: Matrix,
    coefficients: Matrix,
    middles: NDArray[np.float64],
    precision: float,
    place: tuple[int, int, int],
    signals: NDArray[np.uint8],
    deviations: Matrix,
) -> None:
    """Write what regression leaves of some clients' reports in one stratum.

    `place` is the first client, the first parameter and the stratum.
    """
    first, begin, stratum = place
    count, size = columns.shape
    threes = count - count % 3
    rest, magnitude = np.empty(size), np.empty(size)
    for i in range(reports.shape[0]):
        update, middle, into = reports[i], middles[i], signals[first + i, begin : begin + size]
        for n in range(size):
            rest[n] = update[n]
            magnitude[n] = abs(update[n])
        # Three columns at a time: most of the work is loading and storing what is left.
        for r in range(0, threes, 3):
            a, b, c = coefficients[i, r], coefficients[i, r + 1], coefficients[i, r + 2]
            one, two, three = columns[r], columns[r + 1], columns[r + 2]
            for n in range(size):
                x, y, z = a * one[n], b * two[n], c * three[n]
                rest[n] -= x + y + z
                magnitude[n] += abs(x) + abs(y) + abs(z)
        for r in range(threes, count):
            a, one = coefficients[i, r], columns[r]
            for n in range(size):
                x = a * one[n]
                rest[n] -= x
                magnitude[n] += abs(x)
        for n in range(size):
            tie = update[n] == 0.0 or abs(rest[n]) <= precision * magnitude[n]
            into[n] = TIE if tie else (POSITIVE if rest[n] > 0.0 else NEGATIVE)
            rest[n] = 0.0 if tie else abs(rest[n])
            magnitude[n] = abs(update[n] - middle)
        left, spread = 0.0, 0.0
        for n in range(size):
            left += rest[n]
            spread += magnitude[n]
        deviations[first + i, stratum, 0] = left
        deviations[first + i, stratum, 1] = spread


@njit(cache=True, nogil=True, error_model="numpy")  # no divisor is zero; checks forbid vectors
def least_absolute(columns: Matrix, targets: Matrix) -> Matrix:
    """Fit each target by the columns, by iteratively reweighted least squares.

    Parameters
    ----------
    columns : (c, n)
    targets : (lanes, n)

    Returns
    -------
    (lanes, c)
        Coefficients; 0 for columns that depend on earlier ones.
    """
    count, size = columns.shape
    lanes = targets.shape[0]
    scaled, scales = np.empty((count, size)), np.empty(count)
    turned = room_for(size, count)
    for a in range(count):
        mean = 0.0
        for n in range(size):
            mean += abs(columns[a, n])
        mean /= size
        scales[a] = mean if mean > 0.0 else 1.0
        for n in range(size):
            scaled[a, n] = columns[a, n] / scales[a]
            turned[n, a] = scaled[a, n]
    products = _products(turned, count)
    floors = np.empty(lanes)
    for i in range(lanes):
        total = 0.0
        for n in range(size):
            total += abs(targets[i, n])
        # Of a target of zeros any weights find the coefficients, which are zeros.
        floors[i] = _RELATIVE_FLOOR * total / size if total > 0.0 else 1.0
    normal = np.empty((count * (count + 1) // 2, lanes))
    coefficients = np.empty((count, lanes))
    weights, weighted = np.empty((lanes, size)), np.empty((lanes, size))
    for fit in range(1 + _REWEIGHTINGS):
        if fit == 0:  # plain least squares, with the same equations for all
            for row in range(normal.shape[0]):
                total = 0.0
                for n in range(size):
                    total += products[n, row]
                for i in range(lanes):
                    normal[row, i] = total
        else:
            _reweigh(scaled, targets, coefficients, floors, weights, weighted)
            _write_products(products, weights, normal)
        _write_products(turned, weighted if fit else targets, coefficients)
        _solve(normal, coefficients)
    result = np.empty((lanes, count))
    for i in range(lanes):
        for a in range(count):
            result[i, a] = coefficients[a, i] / scales[a]
    return result


@njit(cache=True, nogil=True)
def _products(turned: Matrix, count: int) -> Matrix:
    """Return the products of columns a and b <= a at a (a + 1) / 2 + b of each row, then zeros."""
    rows = count * (count + 1) // 2
    size = turned.shape[0]
    products = room_for(size, rows)
    for n in range(size):
        line, into = turned[n], products[n]
        row = 0
        for a in range(count):
            for b in range(a + 1):
                into[row] = line[a] * line[b]
                row += 1
    return products


@njit(cache=True, nogil=True)
def _write_products(left: Matrix, right: Matrix, into: Matrix) -> None:
    """Write ``(right @ left).T``, its first rows: `left` is (n, width), `right` (lanes, n)."""
    rows, lanes = into.shape
    totals = np.empty((lanes, left.shape[1]))
    for i in range(lanes):
        for r in range(left.shape[1]):
            totals[i, r] = 0.0
    accumulate(left, right, totals)
    for r in range(rows):
        for i in range(lanes):
            into[r, i] = totals[i, r]


@njit(cache=True, nogil=True, error_model="numpy")
def _reweigh(
    columns: Matrix,
    targets: Matrix,
    coefficients: Matrix,
    floors: NDArray[np.float64],
    weights: Matrix,
    weighted: Matrix,
) -> None:
    """Weigh each sample by one over its residual; targets and weights are (lanes, n)."""
    lanes, size = targets.shape
    count = columns.shape[0]
    threes = count - count % 3
    for i in range(lanes):
        target, floor, rest, into = targets[i], floors[i], weights[i], weighted[i]
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
            into[n] = rest[n] * target[n]


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(normal: Matrix, right: Matrix) -> None:
    """Solve the normal equations of all lanes by Cholesky's factorisation, in place.

    `normal` holds lower triangles, row a (a + 1) / 2 + b; dependent columns get 0.
    """
    count, lanes = right.shape
    inverse = np.empty((count, lanes))
    rest = np.empty(lanes)
    for a in range(count):
        row = a * (a + 1) // 2
        for b in range(a + 1):
            target, pivots = normal[row + b], b * (b + 1) // 2
            for i in range(lanes):
                rest[i] = target[i]
            for c in range(b):
                left, other = normal[row + c], normal[pivots + c]
                for i in range(lanes):
                    rest[i] -= left[i] * other[i]
            if b < a:
                factor = inverse[b]
                for i in range(lanes):
                    target[i] = rest[i] * factor[i]
        for i in range(lanes):
            independent = rest[i] > _DEPENDENT * normal[row + a, i]
            inverse[a, i] = 1.0 / np.sqrt(rest[i]) if independent else 0.0
    for a in range(count):
        for c in range(a):
            left, known = normal[a * (a + 1) // 2 + c], right[c]
            for i in range(lanes):
                right[a, i] -= left[i] * known[i]
        for i in range(lanes):
            right[a, i] *= inverse[a, i]
    for a in range(count - 1, -1, -1):
        for c in range(a + 1, count):
            left, known = normal[c * (c + 1) // 2 + a], right[c]
            for i in range(lanes):
                right[a, i] -= left[i] * known[i]
        for i in range(lanes):
            right[a, i] *= inverse[a, i]
