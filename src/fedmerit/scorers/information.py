"""Information: what a report tells about the others that nobody could know without the client.

The private part of a report is what neither the public nor the client's own earlier reports
explain of it. A client's testimony is what its reports have told so far: the mean of their private
parts, each at length one, the newest counting a third. It tells as much about the others as it
points where they go now: the mean cosine with the reports of the members of the cohort, where
pointing apart counts as nothing. So a report that is longer, or mixed with anything that was known
before, tells the same; and what one told is worth more if it comes true.

One work that is sent from several accounts differs from account to account by what was added, and
what was added knows nothing of anybody's data. What sets two honest clients apart is their data: it
points where reports of others point, and where their own earlier reports did. So two accounts are
one work if their difference points there no more than noise would, and if a difference of two
honest clients of this round, drowned in as much noise, would.
"""

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.decisions import (
    FEWEST,
    mean_square_quantile,
    middle_and_spread,
    student_quantile,
)
from fedmerit.evidence.limits import LIMITS
from fedmerit.kernels.products import accumulate, products_between, squares_of, turned
from fedmerit.kernels.threads import deal
from fedmerit.types import FloatArray

Matrix = NDArray[np.float64]
Values = NDArray[np.float64]
Booleans = NDArray[np.bool_]
_LOOKED_AT = 16_384  # parameters, spread evenly
# They are summed in so many stretches, a piece at a time, for some vectors of the past together.
_STRETCHES, _PIECE, _LANES = 4, 512, 24
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
        Earlier reports of each client, zeros where there are fewer. In a first round, in which
        nobody has any, all go one way: what differs is how far they come, and those who come as far
        as each other are not one work. Only near-copies are told then.
    alike : (k, k) bool array
        Near-copies, which are one work in any case.
    counted : (k,) bool array
        Who is looked at. Of fewer than eight nobody can say what is usual between two.
    """
    same = alike.astype(np.float64)
    if counted.sum() < LIMITS.fewest_usual or past is None or not past.any():
        return same
    step = -(-unknown.shape[1] // _LOOKED_AT)
    towards, apart, products = set_apart(unknown[:, ::step], past[:, :, ::step], counted)
    independent = _independent(products[np.ix_(counted, counted)])
    limit = mean_square_quantile(LIMITS.honest_event, independent)
    pairs = np.logical_and.outer(counted, counted) & ~np.eye(len(counted), dtype=np.bool_)
    noise = pairs & (np.maximum(towards, towards.T) <= limit)
    data = pairs & ~noise
    by_data = _least_by_data((towards - 1) * apart, data, int(counted.sum()))
    # Who cannot be told from most others cannot be told from anybody.
    clear = 2 * data.sum(axis=1) > pairs.sum(axis=1)
    told = noise & np.logical_and.outer(clear, clear) & (by_data >= (limit - 1) * apart)
    same[told & told.T] = 1.0
    return same


def apart_by_data(
    unknown: FloatArray,
    past: FloatArray | None,
    cosine: Matrix,
    alike: Booleans,
    starts: NDArray[np.int64],
) -> Booleans:
    """Return which newcomers differ from the nearest copy, another one, as data do, (k,).

    Neither has a past that could tell, and clients with data of one kind come nearly as far the
    same way. They differ most where reports are large; what is added to a copy knows nothing of
    that. In each stratum, the half with the larger reports is compared with the other, by
    logarithms of squared differences, which do not hang on a few. How much longer one report is
    than the other, most of its large parameters say; what is only rounding is no difference.
    """
    apart = np.zeros(len(unknown), dtype=np.bool_)
    new = ~apart if past is None else ~np.any(past, axis=(1, 2))
    nearest = np.argmax(np.where(alike, cosine, -np.inf), axis=1)
    asked = alike.any(axis=1) & new & new[nearest]
    if not asked.any():
        return apart
    if unknown.shape[1] < LIMITS.fewest_moved:
        apart |= asked  # halves of so few parameters say nothing
        return apart
    step = -(-unknown.shape[1] // _LOOKED_AT)
    looked_at = unknown[:, ::step].astype(np.float64)
    squares = np.square(looked_at)
    everybody, ends = squares.sum(axis=0), -(-starts // step)
    for client in np.flatnonzero(asked):
        one, other = looked_at[client], looked_at[nearest[client]]
        large = np.abs(other) > np.median(np.abs(other))
        if not large.any():
            continue
        between = np.square(one - np.median(one[large] / other[large]) * other)
        if between.sum() <= 2 * LIMITS.rounding * squares[client].sum():
            continue
        others = everybody - squares[client] - squares[nearest[client]]
        logs = np.log(np.maximum(between, LIMITS.rounding * between.mean()))
        apart[client] = _larger_where(others, logs, ends)
    return apart


def _larger_where(others: Values, values: Values, ends: NDArray[np.int64]) -> bool:
    """Return whether `values` are larger in that half of each stratum in which `others` are."""
    strata = np.split(np.arange(len(others)), ends[1:-1])
    order = [stratum[np.argsort(others[stratum], kind="stable")] for stratum in strata]
    upper = values[np.concatenate([stratum[(len(stratum) + 1) // 2 :] for stratum in order])]
    lower = values[np.concatenate([stratum[: len(stratum) // 2] for stratum in order])]
    if len(lower) < FEWEST:
        return False
    error = np.sqrt(upper.var(ddof=1) / len(upper) + lower.var(ddof=1) / len(lower))
    return bool(upper.mean() - lower.mean() > LIMITS.significant * error)


def set_apart(
    rows: FloatArray, past: FloatArray, counted: Booleans
) -> tuple[Matrix, Matrix, Matrix]:
    """Return how far differences of pairs point where data do, how large they are, and products.

    Each is (k, k). All vectors, of `rows`, (k, m), and of the `past`, (k, n, m), are taken at
    length one, or none. The second report of a pair is brought to the scale of the first by what
    others have in common with either. The squares of the products of their difference with the
    reports of others and with earlier ones of the two are added up, relative to what they would be
    for noise of the same size, parameter by parameter: 1 for noise. The products are of the rows.
    """
    product, half, known, beside, spread = _sums_of(rows, past, counted)
    seen = product * counted[:, None]  # by those that are counted
    own = np.diagonal(seen)
    both = np.einsum("li,lj->ij", seen, seen) - own[:, None] * seen - own[None, :] * seen.T
    of_one = np.square(seen).sum(axis=0)[:, None] - np.square(own)[:, None] - np.square(seen.T)
    scale = np.divide(both, of_one.T, out=np.zeros_like(both), where=of_one.T > 0)

    first = (spread + np.diagonal(beside))[:, None] + beside.T
    mixed = half + half.T
    with_own = np.einsum("ili->il", known)
    both_past = np.einsum("il,ilj->ij", with_own, known)
    of_past = np.square(known).sum(axis=1)
    of_one = of_one + np.diagonal(of_past)[:, None] + of_past.T
    both = both + both_past + both_past.T
    shown = of_one - 2 * scale * both + np.square(scale) * of_one.T
    by_noise = first - 2 * scale * mixed + np.square(scale) * first.T
    length = np.diagonal(product)
    size = length[:, None] - 2 * scale * product + np.square(scale) * length[None, :]
    towards: Matrix = np.maximum(shown, 0.0) / np.maximum(by_noise, _TINY)
    return towards, np.maximum(size, 0.0), product


def _sums_of(
    rows: FloatArray, past: FloatArray, counted: Booleans
) -> tuple[Matrix, Matrix, Matrix, Matrix, Values]:
    """Return sums over the parameters, of vectors r of length one, and s, those of the past.

    Noise of a size meets e at a parameter, the squares of all reports that are counted, and of
    client i also w, the squares of its past less its own. The sums are of r[i] r[j], of
    r[i] (e / 2 + w[i]) r[j], of s[i, n] r[j], of w[i] r[j]^2, by i and j, and of e r[j]^2, by j.

    Each stretch of parameters has sums of its own, which are added in order: so they are the same
    bits whichever thread does it.
    """
    (clients, size), earlier = rows.shape, past.shape[1]
    some = max(_LANES // max(earlier, 1), 1)  # so many clients' pasts together
    edges = np.cumsum((0, clients, clients, clients * earlier, clients, 1))
    room = np.zeros((_STRETCHES, edges[-1], turned(np.empty((clients, 0))).shape[1]))
    lengths, of_past = _lengths(rows)[:, None], _lengths(past)[:, :, None]

    def add(first: int, last: int) -> None:
        for stretch in range(first, last):
            product, mixed, known, beside, spread = np.split(room[stretch], edges[1:-1])
            begin, end = (size * n // _STRETCHES for n in (stretch, stretch + 1))
            for start in range(begin, end, _PIECE):
                part = slice(start, min(start + _PIECE, end))
                report = rows[:, part] / lengths
                square = np.square(report)
                columns, squares = turned(report), turned(square)
                alone = -square * counted[:, None]
                everybody = -alone.sum(axis=0)
                for one in range(0, clients, some):
                    few = slice(one, one + some)
                    own, there = past[few, :, part] / of_past[few], alone[few]
                    there += np.einsum("inp,inp->ip", own, own)
                    own = own.reshape(-1, own.shape[2])
                    accumulate(columns, own, known[one * earlier :][: len(own)])
                    accumulate(columns, report[few], product[few])
                    accumulate(columns, report[few] * (there + everybody / 2), mixed[few])
                    accumulate(squares, there, beside[few])
                accumulate(squares, everybody[None], spread)

    deal(add, _STRETCHES)
    product, mixed, known, beside, spread = np.split(room.sum(axis=0)[:, :clients], edges[1:-1])
    return product, mixed, known.reshape(clients, earlier, clients), beside, spread[0]


def _lengths(vectors: FloatArray) -> Values:
    """Return the lengths of the vectors, infinite where there is nothing: so it stays nothing."""
    squares = np.einsum("...p,...p->...", vectors, vectors, dtype=np.float64)
    lengths: Values = np.where(squares > 0, np.sqrt(squares), np.inf)
    return lengths


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


def _independent(products: Matrix) -> float:
    """Return how many independent vectors of length one tell as much as those of the products."""
    return float(np.trace(products) ** 2 / max(float(np.square(products).sum()), _TINY))


def once(same: Matrix) -> Booleans:
    """Return one client of each work, (k,): the first of those that are the same."""
    alone: Booleans = ~np.any(np.triu(same > 1 / 2, 1), axis=0)
    return alone


def tell(
    private: FloatArray,
    left: Values,
    before: FloatArray | None,
    reports: FloatArray,
    norms: Values,
    same: Matrix,
    members: Booleans,
) -> tuple[Values, FloatArray]:
    """Return what each client tells about the others, (k,), and its testimony, (k, d).

    What a report tells now is known of everybody. Of what clients told before, differences from
    what is usual count, in proportion where that is more than what is usual now. So who has told
    nothing before is compared with the others by what it tells now, and where nothing has come true
    of what was told, nothing counts.

    Parameters
    ----------
    private : (k, d) array
        What only the client could know of its report, of which it is the share `left`, (k,). Who
        has nothing left tells nothing.
    before : (k, d) array or None
        The testimony of earlier rounds, zeros for a newcomer.
    reports : (k, d) array
        Where the others go now; `norms`, (k,), are their lengths.
    same : (k, k) array
        How far two accounts are one work: these count once, and nothing for each other.
    members : (k,) bool array
        Whose reports count.
    """
    weights = np.where(members, (1 - same) / (1 + same.sum(axis=1)), 0.0)
    np.fill_diagonal(weights, 0.0)
    units = _units(private, left * norms)
    now = np.where(left > 0, _toward(units, reports, norms, weights), 0.0)
    if before is None:
        return now, units
    known = np.any(before, axis=1)
    share = np.where(known, LIMITS.newest, 1.0)
    told, usual = now, known & members
    if usual.any():
        past = _toward(before, reports, norms, weights)
        middle, of_past = float(np.median(now[usual])), float(np.median(past[usual]))
        if middle > 0 and of_past > 0:
            past = middle + (past - of_past) * min(middle / of_past, 1.0)
            told = np.where(left > 0, share * now + (1 - share) * past, 0.0)
    newest, older = share.astype(units.dtype), (1 - share).astype(units.dtype)
    for row, testimony in enumerate(units):  # a client at a time: without large copies
        testimony *= newest[row]
        if known[row]:
            testimony += before[row] * older[row]
    return told, units


def _units(private: FloatArray, lengths: Values) -> FloatArray:
    """Return the private parts at length one; zeros where there is nothing."""
    units = np.empty_like(private)
    # In float64: the length of a float32 vector may be no float32.
    for row, length in enumerate(lengths.tolist()):
        if length > 0:
            np.divide(private[row], length, out=units[row], dtype=np.float64, casting="same_kind")
        else:
            units[row] = 0.0
    return units


def _toward(rows: FloatArray, reports: FloatArray, norms: Values, weights: Matrix) -> Values:
    """Return how far each of the rows points where the reports do, on the weighted mean, (k,).

    What independent vectors show on average is nothing, and less than one standard deviation of it
    cannot be told from that.
    """
    products = products_between(rows, reports)
    cosines = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    total = weights.sum(axis=1)
    mean = np.divide(
        (weights * np.maximum(cosines, 0.0)).sum(axis=1),
        total,
        out=np.zeros_like(total),
        where=total > 0,
    )
    by_chance = np.sqrt(squares_of(rows)) / np.sqrt(rows.shape[1])
    peers = max(int(np.any(weights > 0, axis=0).sum()) - 1, 1)
    error = LIMITS.positive_deviation * by_chance / np.sqrt(peers)
    toward: Values = np.maximum(mean - LIMITS.positive_part * by_chance, error)
    return toward


def shrunk(values: Values, counted: Booleans, past: Values | None) -> Values:
    """Return the `values` with only those differences between clients that last.

    A difference from the median of the `counted` is kept in the measure in which such differences
    were there in earlier rounds (`past`, what clients told relative to the median, on average; NaN
    for a newcomer), but moved by two standard deviations of the round at most, as in the limited
    translation estimators of Efron and Morris (1972). It is a difference of logarithms: who tells
    nothing is paid nothing.
    """
    used = counted & (values > 0)
    if not used.any():
        return np.zeros_like(values)
    logs = np.log(values[used])
    centre, spread = middle_and_spread(logs)
    offset = logs - centre
    share = LIMITS.least_lasting if past is None else _lasting(np.exp(offset), past[used])
    size = np.maximum(share * np.abs(offset), np.abs(offset) - LIMITS.moved * spread)
    result = np.zeros_like(values)
    result[used] = np.exp(centre + np.sign(offset) * size)
    return result


def _lasting(now: Values, past: Values) -> float:
    """Return which share of the differences between clients lasts, at least.

    The slope of the past on this round is the share of the variance that is not the round's own;
    what counts is the slope less one standard error.
    """
    known = ~np.isnan(past)
    freedom = int(known.sum()) - 2
    if freedom < 1:
        return LIMITS.least_lasting
    apart, before = now[known] - now[known].mean(), past[known] - past[known].mean()
    variance = float(apart @ apart)
    if variance == 0:
        return LIMITS.least_lasting
    slope = float(apart @ before) / variance
    error = np.sqrt(float(np.square(before - slope * apart).sum()) / freedom / variance)
    return float(np.clip(slope - error, LIMITS.least_lasting, 1.0))
