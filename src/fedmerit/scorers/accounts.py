"""Accounts: whether what sets two clients apart is their data, or noise.

One work that is sent from several accounts differs from account to account by what was added, and
what was added knows nothing of anybody's data. What sets two honest clients apart is their data: it
points where reports of others point, and where their own earlier reports did. So two accounts are
one work if their difference points there no more than noise would, and if a difference of two
honest clients of this round, drowned in as much noise, would.
"""

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.decisions import mean_square_quantile, middle_and_spread, student_quantile
from fedmerit.evidence.limits import LIMITS
from fedmerit.types import FloatArray

Matrix = NDArray[np.float64]
Booleans = NDArray[np.bool_]
_LOOKED_AT = 16_384  # parameters, spread evenly
_TINY = 1e-300
_LEAST = 1e-6  # of what is usual: what is below is nothing


def shared_work(
    unknown: FloatArray, past: FloatArray | None, alike: Booleans, counted: Booleans
) -> Matrix:
    """Return who is one work under two names, (k, k), 0 or 1; nobody with itself.

    Parameters
    ----------
    unknown : (k, d) array
        What is not public of each report.
    past : (k, n, d) array or None
        Earlier reports of each client, zeros where there are fewer.
    alike : (k, k) bool array
        Near-copies, which are one work in any case.
    counted : (k,) bool array
        Who is looked at. Of fewer than eight nobody can say what is usual between two.
    """
    same = alike.astype(np.float64)
    if counted.sum() < LIMITS.fewest_usual:
        return same
    step = -(-unknown.shape[1] // _LOOKED_AT)
    rows = _units(unknown[:, ::step])
    earlier = None if past is None else _units(past[:, :, ::step])
    towards, apart = set_apart(rows, earlier, counted)
    limit = mean_square_quantile(LIMITS.honest_event, _independent(rows[counted]))
    pairs = np.logical_and.outer(counted, counted) & ~np.eye(len(counted), dtype=np.bool_)
    noise = pairs & (np.maximum(towards, towards.T) <= limit)
    data = pairs & ~noise
    by_data = _least_by_data((towards - 1) * apart, data, int(counted.sum()))
    # Who cannot be told from most others cannot be told from anybody.
    clear = 2 * data.sum(axis=1) > pairs.sum(axis=1)
    told = noise & np.logical_and.outer(clear, clear) & (by_data >= (limit - 1) * apart)
    same[told & told.T] = 1.0
    return same


def set_apart(rows: Matrix, past: Matrix | None, counted: Booleans) -> tuple[Matrix, Matrix]:
    """Return how far differences of pairs point where data do, and how large they are, (k, k) each.

    The second report of a pair is brought to the scale of the first by what others have in common
    with either. The squares of the products of their difference with the reports of others and with
    earlier ones of the two are added up, relative to what they would be for noise of the same size,
    parameter by parameter: 1 for noise. All vectors have length one, or none.
    """
    others = rows * counted[:, None]
    product, square = rows @ rows.T, np.square(rows)
    seen = others @ rows.T  # by those that are counted
    own = np.diagonal(seen)
    both = seen.T @ seen - own[:, None] * seen - own[None, :] * seen.T
    of_one = np.square(seen).sum(axis=0)[:, None] - np.square(own)[:, None] - np.square(seen.T)
    scale = np.divide(both, of_one.T, out=np.zeros_like(both), where=of_one.T > 0)

    everybody = np.square(others).sum(axis=0)
    cube, cross = (others * square) @ rows.T, np.square(others) @ square.T
    weighed = (rows * everybody) @ rows.T
    first = np.diagonal(weighed)[:, None] - np.diagonal(cross)[:, None] - cross.T
    mixed = weighed - cube - cube.T
    if past is not None:
        known = np.einsum("ild,jd->ilj", past, rows, optimize=True)
        with_own = np.einsum("ili->il", known)
        both_past = np.einsum("il,ilj->ij", with_own, known)
        of_past = np.square(known).sum(axis=1)
        of_one = of_one + np.diagonal(of_past)[:, None] + of_past.T
        both = both + both_past + both_past.T
        there = np.square(past).sum(axis=1)
        by_past = there @ square.T
        first = first + np.diagonal(by_past)[:, None] + by_past.T
        of_pair = (there * rows) @ rows.T
        mixed = mixed + of_pair + of_pair.T
    shown = of_one - 2 * scale * both + np.square(scale) * of_one.T
    by_noise = first - 2 * scale * mixed + np.square(scale) * first.T
    length = np.diagonal(product)
    size = length[:, None] - 2 * scale * product + np.square(scale) * length[None, :]
    towards: Matrix = np.maximum(shown, 0.0) / np.maximum(by_noise, _TINY)
    return towards, np.maximum(size, 0.0)


def _least_by_data(found: Matrix, data: Booleans, clients: int) -> Matrix:
    """Return how far the difference of a pair points where data do at least, if data it is, (k, k).

    What is usual is told by pairs whose difference is `data`, (k, k) bool. Two clients that differ
    much from others differ much from each other: what is usual for a pair follows from what is
    usual for either, but for a chance of one in a hundred over all pairs of the `clients`.
    """
    upper = np.triu(data, 1)
    if not upper.any():
        return np.zeros_like(found)
    usual = np.maximum(_medians(found, data), _TINY)
    expected = np.outer(usual, usual) / max(float(np.median(found[upper])), _TINY)
    relative = np.log(np.maximum(found[upper] / expected[upper], _LEAST))
    centre, spread = middle_and_spread(relative)
    rate = LIMITS.honest_event / (clients * (clients - 1) // 2)
    least: Matrix = expected * np.exp(centre - student_quantile(rate, clients - 1) * spread)
    return least


def _medians(found: Matrix, used: Booleans) -> NDArray[np.float64]:
    """Return the median of those of each row that are used; 0 where none is."""
    rows = zip(found, used, strict=True)
    return np.array([np.median(row[mine]) if mine.any() else 0.0 for row, mine in rows])


def _independent(rows: Matrix) -> float:
    """Return how many independent vectors tell as much as the rows, which are of length one."""
    products = rows @ rows.T
    return float(np.trace(products) ** 2 / max(float(np.square(products).sum()), _TINY))


def _units(vectors: FloatArray) -> Matrix:
    """Return the vectors at length one; zeros where there is nothing."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.square(wide).sum(axis=-1, keepdims=True))
    units: Matrix = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)
    return units


def once(same: Matrix) -> Booleans:
    """Return one client of each work, (k,): the first of those that are the same."""
    alone: Booleans = ~np.any(np.triu(same > 1 / 2, 1), axis=0)
    return alone
