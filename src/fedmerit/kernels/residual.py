"""What public information does not explain of an update: signs of robust residuals.

Inside a stratum an update is regressed on the public vectors and a constant by least absolute
deviations. Squares would not do: a free rider who adds large noise to some parameters and tiny
noise to others would move a least-squares slope by more than the tiny noise, and all riders by the
same public vector.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

NEGATIVE, TIE, POSITIVE = 0, 1, 2
_ITERATIONS = 8
_FIT_SAMPLE = 256
_RELATIVE_FLOOR = 1e-9
_DEPENDENT = 1e-12


@njit(cache=True, parallel=True)
def residual_signs(
    updates: NDArray[np.floating],
    public: NDArray[np.floating],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    precision: float,
    signals: NDArray[np.uint8],
    deviations: NDArray[np.float64],
) -> None:
    """Write the sign of each residual, and how much of each report is left unexplained.

    Parameters
    ----------
    updates : (k, d)
    public : (r, d)
        What every client knows.
    order, starts
        Stratum s holds the parameters ``order[starts[s]:starts[s + 1]]``.
    precision : float
        What is smaller than this share of the numbers it was computed from is a tie, not a signal.
    signals : (k, d), output
        NEGATIVE, TIE or POSITIVE.
    deviations : (k, strata, 2), output
        Sums of absolute residuals, and of absolute deviations from the stratum's median.
    """
    known = public.shape[0]
    for s in prange(starts.shape[0] - 1):
        members = order[starts[s] : starts[s + 1]]
        columns = np.empty((known + 1, members.shape[0]))
        for n in range(members.shape[0]):
            for r in range(known):
                columns[r, n] = public[r, members[n]]
            columns[known, n] = 1.0
        for i in range(updates.shape[0]):
            _signs_of_row(updates[i], columns, members, precision, signals[i], deviations[i, s])


@njit(cache=True)
def _signs_of_row(
    update: NDArray[np.floating],
    columns: NDArray[np.float64],
    members: NDArray[np.int64],
    precision: float,
    signals: NDArray[np.uint8],
    deviations: NDArray[np.float64],
) -> None:
    size = members.shape[0]
    deviations[:] = 0.0
    if size == 0:
        return
    values = np.empty(size)
    for n in range(size):
        values[n] = update[members[n]]
    stride = (size + _FIT_SAMPLE - 1) // _FIT_SAMPLE
    sample = values[::stride].copy()
    coefficients = least_absolute(columns[:, ::stride].copy(), sample)
    middle = np.median(sample)
    rest, magnitude = values.copy(), np.abs(values)
    for r in range(columns.shape[0]):
        column, coefficient = columns[r], coefficients[r]
        for n in range(size):
            term = coefficient * column[n]
            rest[n] -= term
            magnitude[n] += abs(term)
    for n in range(size):
        deviations[1] += abs(values[n] - middle)
        if abs(rest[n]) <= precision * magnitude[n]:
            signals[members[n]] = TIE
        else:
            deviations[0] += abs(rest[n])
            signals[members[n]] = POSITIVE if rest[n] > 0.0 else NEGATIVE


@njit(cache=True)
def least_absolute(
    columns: NDArray[np.float64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fit `target` by the `columns`, (columns, n), by iteratively reweighted least squares."""
    known, size = columns.shape
    scales = np.empty(known)
    rows = np.empty((size, known))
    for r in range(known):
        mean = np.abs(columns[r]).mean()
        scales[r] = mean if mean > 0.0 else 1.0
        for n in range(size):
            rows[n, r] = columns[r, n] / scales[r]
    coefficients = np.zeros(known)
    weights = np.ones(size)
    floor = _RELATIVE_FLOOR * np.abs(target).mean()
    if floor == 0.0:
        return coefficients
    for _ in range(_ITERATIONS):
        coefficients = _weighted_least_squares(rows, target, weights)
        for n in range(size):
            fit = 0.0
            for r in range(known):
                fit += coefficients[r] * rows[n, r]
            weights[n] = 1.0 / max(abs(target[n] - fit), floor)
    return coefficients / scales


@njit(cache=True)
def _weighted_least_squares(
    rows: NDArray[np.float64], target: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Solve the normal equations by Cholesky's factorisation; dependent columns get 0."""
    size = rows.shape[1]
    normal = np.zeros((size, size))
    right = np.zeros(size)
    for n in range(rows.shape[0]):
        row = rows[n]
        for a in range(size):
            weighted = weights[n] * row[a]
            right[a] += weighted * target[n]
            line = normal[a]
            for b in range(size):
                line[b] += weighted * row[b]
    for a in range(size):
        original = normal[a, a]
        for b in range(a + 1):
            rest = normal[a, b]
            for c in range(b):
                rest -= normal[a, c] * normal[b, c]
            if b < a:
                normal[a, b] = rest / normal[b, b] if normal[b, b] > 0.0 else 0.0
            else:
                normal[a, a] = np.sqrt(rest) if rest > _DEPENDENT * original else 0.0
    solution = np.zeros(size)
    for a in range(size):
        rest = right[a]
        for c in range(a):
            rest -= normal[a, c] * solution[c]
        solution[a] = rest / normal[a, a] if normal[a, a] > 0.0 else 0.0
    for a in range(size - 1, -1, -1):
        rest = solution[a]
        for c in range(a + 1, size):
            rest -= normal[c, a] * solution[c]
        solution[a] = rest / normal[a, a] if normal[a, a] > 0.0 else 0.0
    return solution
