"""Clients compared: which pairs, how far they agree, what is private, what points where.

Panels of clients where these are many. Private is what regression on what is public, and then on
the client's own earlier reports, leaves of a report. In float64 the cancellation leaves about 1e-8
of a report's norm, far below float32 reports' own rounding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import UpdatesError
from fedmerit.kernels.agreement import (
    AGREEMENT,
    CERTIFICATE,
    CHANCE,
    OUTPUTS,
    VARIANCE,
    score_pairs,
)
from fedmerit.kernels.counts import (
    HISTOGRAM_TILE,
    MAX_PLANE_LEVELS,
    TILE,
    count_by_histogram,
    count_by_planes,
)
from fedmerit.kernels.products import inner_products, products_between
from fedmerit.kernels.spans import take_off_all, take_off_own
from fedmerit.kernels.threads import deal, threads
from fedmerit.types import Contributions, Evidence, FloatArray, Pairs, RoundInputs, Signals
from fedmerit.validation import check_count

Matrix = NDArray[np.float64]
# Pairs are counted in blocks, so that memory does not grow with the square of the clients.
_BLOCK_BYTES = 2 * 2**20
# A histogram of many levels takes up to 0.5 MB per pair.
_HISTOGRAM_BYTES = 16 * 2**20
_MATRIX_CLIENTS = 4096
# Of more clients than this, a matrix is made only if a good part of it would be filled.
_SPARSE_CLIENTS = 256
_FILLED = 1 / 16
_Column = TypeVar("_Column", NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64])
# A vector that others span but for this share is spanned by them.
_DEPENDENT = 1e-6
# What is left of an earlier report that was itself public is rounding.
_PUBLIC_PAST = 1e-5


def check_enough_parameters(signals: Signals) -> None:
    """Each half needs at least one parameter per level to say anything about a level."""
    least = 2 * signals.levels
    if signals.values.shape[1] < least:
        raise UpdatesError(
            f"updates must have at least 2 x levels = {least} parameters, "
            f"got {signals.values.shape[1]}"
        )


def choose_peers(clients: int, peers: int | None, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return ordered pairs (client, peer), each client with `peers` random others.

    ``None`` means all others, in which case nothing is drawn.
    """
    if peers is None:
        return _all_pairs(clients)
    count = check_count("peers", peers, least=1, most=clients - 1)
    chosen = np.empty((clients, count, 2), dtype=np.int64)
    for client in range(clients):
        others = rng.permutation(clients - 1)[:count]
        chosen[client, :, 0] = client
        chosen[client, :, 1] = np.sort(others + (others >= client))
    return chosen.reshape(-1, 2)


def plan_comparisons(
    clients: int, peers: int | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return ordered pairs of a plan in which everybody is compared equally often.

    The clients are put on a ring at random, and each is compared with those at a few distances, in
    both directions (a circulant graph). Distance 1 is among them, so the plan is connected; the
    others are drawn at random. An odd number of peers becomes the next even one. ``None`` means
    everybody with everybody.
    """
    if peers is None:
        return _all_pairs(clients)
    peers = check_count("peers", peers, least=1, most=clients - 1)
    if peers + peers % 2 >= clients - 1:
        return _all_pairs(clients)
    ring = rng.permutation(clients)
    # The opposite place of an even ring would be met twice.
    further = 2 + rng.permutation((clients - 1) // 2 - 1)
    distances = np.concatenate(([1], further[: (peers + 1) // 2 - 1]))
    places = np.arange(clients)
    ahead = [np.column_stack((ring, ring[(places + step) % clients])) for step in distances]
    forward = np.concatenate(ahead)
    return np.concatenate((forward, forward[:, ::-1]))


def _all_pairs(clients: int) -> NDArray[np.int64]:
    rows, columns = np.nonzero(~np.eye(clients, dtype=np.bool_))
    return np.column_stack((rows, columns)).astype(np.int64)


def joint_counts(
    signals: Signals,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    pairs: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
    """Yield the indices of a block of pairs, and their counts, (block, groups, levels, levels).

    Group g holds the parameters ``order[starts[g]:starts[g + 1]]``. The array that is yielded is
    reused from block to block.
    """
    levels, groups = signals.levels, len(starts) - 1
    by_planes = levels <= MAX_PLANE_LEVELS
    count, workers = (count_by_planes, threads()) if by_planes else (count_by_histogram, 1)
    room = _BLOCK_BYTES if by_planes else _HISTOGRAM_BYTES
    block = min(len(pairs), max(1, room // (workers * groups * levels * levels * 4)))
    tiles = _tiles(starts, TILE if by_planes else HISTOGRAM_TILE)
    buffer = np.empty((workers, block, groups, levels, levels), dtype=np.int32)
    # Neighbouring pairs share clients: a block then needs the signals of a few clients only.
    side = max(1, int(block**0.5))
    near = np.lexsort((pairs[:, 1] // side, pairs[:, 0] // side))
    for begin in range(0, len(pairs), block):
        part = near[begin : begin + block]
        rows, local = np.unique(pairs[part], return_inverse=True)
        count(signals.values, rows, order, tiles, local.reshape(-1, 2), buffer)
        for worker in range(1, workers):
            buffer[0] += buffer[worker]
        yield part, buffer[0, : len(part)]


def _tiles(starts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Cut the groups into tiles of at most so many parameters; one row (group, begin, end) each."""
    rows = [
        (group, begin, min(begin + most, int(starts[group + 1])))
        for group in range(len(starts) - 1)
        for begin in range(int(starts[group]), int(starts[group + 1]), most)
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def fits_a_matrix(clients: int, compared: int) -> bool:
    """Say whether (k, k) matrices are made, where so many ordered pairs were compared.

    4,096 clients take 128 MB each. Where many clients meet a few peers only, a matrix of gaps would
    take more memory than all else.
    """
    if clients <= _SPARSE_CLIENTS:
        return True
    return clients <= _MATRIX_CLIENTS and compared >= _FILLED * clients**2


def pair_matrix(
    clients: int, ordered: NDArray[np.int64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Put one value per ordered pair into a (k, k) matrix, NaN where nothing was compared."""
    full = np.full((clients, clients), np.nan)
    full[ordered[:, 0], ordered[:, 1]] = values
    return full


def mean_over_peers(pairwise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average each row over the peers it was compared with (the entries that are not NaN)."""
    compared = ~np.isnan(pairwise)
    total = np.where(compared, pairwise, 0.0).sum(axis=1)
    mean: NDArray[np.float64] = total / compared.sum(axis=1)
    return mean


# --- how far they agree


@dataclass(frozen=True)
class PairScores:
    """Scores of ordered pairs (n, 2) of clients, with what they are made of, (n,) each."""

    clients: int
    ordered: NDArray[np.int64]
    score: NDArray[np.float64]
    agreement: NDArray[np.float64]
    chance: NDArray[np.float64]
    z: NDArray[np.float64]
    certificate: NDArray[np.float64]

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Average the values of each client over its peers, (k,)."""
        client = self.ordered[:, 0]
        total = np.bincount(client, values, minlength=self.clients)
        means: NDArray[np.float64] = total / np.bincount(client, minlength=self.clients)
        return means

    def matrices(self) -> Pairs | None:
        """Put everything into (k, k) matrices, NaN where not compared; None if too large."""
        if not fits_a_matrix(self.clients, len(self.ordered)):
            return None
        columns = (self.score, self.agreement, self.chance, self.z)
        return Pairs(*(pair_matrix(self.clients, self.ordered, column) for column in columns))


def score_groups(
    signals: Signals,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    ordered: NDArray[np.int64],
) -> PairScores:
    """Score the `ordered` pairs over groups that are, two by two, the halves of a stratum."""
    clients = signals.values.shape[0]
    low, high = ordered.min(axis=1), ordered.max(axis=1)
    code, where = np.unique(low * clients + high, return_inverse=True)
    results = _score_blocks(signals, order, starts, np.column_stack(divmod(code, clients)))
    score = results[:, AGREEMENT] - results[:, CHANCE]
    deviation = np.sqrt(results[:, VARIANCE])
    # No spread under independence (a constant report, say) is no evidence either way.
    z = np.divide(score, deviation, out=np.zeros_like(score), where=deviation > 0)
    return PairScores(
        clients=clients,
        ordered=ordered,
        score=score[where],
        agreement=results[where, AGREEMENT],
        chance=results[where, CHANCE],
        z=z[where],
        certificate=results[where, CERTIFICATE],
    )


def _score_blocks(
    signals: Signals,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    pairs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the results of the pairs, (n, OUTPUTS); their counts are gone when it returns."""
    results = np.empty((len(pairs), OUTPUTS))
    for block, counts in joint_counts(signals, order, starts, pairs):
        part = np.empty((len(block), OUTPUTS))
        score_pairs(counts, part)
        results[block] = part
    return results


# --- panels: the cost of many clients is linear in their number


def draw_panels(clients: int, largest: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Deal the clients into as few panels as needed, of sizes that differ by at most one.

    The draw comes after the updates are in: nobody can choose its panel. One panel draws nothing.
    """
    count = -(-clients // largest)
    if count == 1:
        return [np.arange(clients)]
    return [np.sort(panel) for panel in np.array_split(rng.permutation(clients), count)]


def join_panels(
    panels: Sequence[NDArray[np.int64]], results: Sequence[Contributions]
) -> Contributions:
    """Put the results of the panels together, in the order of the clients."""
    if len(panels) == 1:
        return results[0]
    everyone = np.concatenate(panels)
    back = np.argsort(everyone)
    compared = sum(len(panel) ** 2 for panel in panels)
    flags = [flag for result in results for flag in result.flags]
    first = results[0]

    def joined(column: Callable[[Contributions], _Column]) -> _Column:
        row: _Column = np.concatenate([column(result) for result in results])[back]
        return row

    def optional(name: str) -> NDArray[np.float64] | None:
        return None if getattr(first, name) is None else joined(lambda r: getattr(r, name))

    def matrix(name: str) -> NDArray[np.float64]:
        full = np.full((len(everyone), len(everyone)), np.nan)
        for panel, result in zip(panels, results, strict=True):
            full[np.ix_(panel, panel)] = getattr(result.pairs, name)
        return full

    pairs = evidence = None
    if first.pairs is not None and fits_a_matrix(len(everyone), compared):
        known = [f.name for f in fields(Pairs) if getattr(first.pairs, f.name) is not None]
        pairs = Pairs(**{name: matrix(name) for name in known})
    if first.evidence is not None:
        evidence = Evidence(
            *(joined(lambda r, name=f.name: getattr(r.evidence, name)) for f in fields(Evidence))  # type: ignore[misc]
        )
    return Contributions.of(
        first.method,
        joined(lambda r: r.scores),
        flags=[flags[place] for place in back],
        eligible=joined(lambda r: r.eligible),
        p_values=optional("p_values"),
        epsilon=optional("epsilon"),
        work=optional("work"),
        testimony=optional("testimony"),
        pairs=pairs,
        evidence=evidence,
    )


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
    inner_products(rows, rows, np.column_stack(upper).astype(np.int64), values)
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


@dataclass(frozen=True)
class Changes:
    """How reports changed since each client's one before, (k, k) each.

    Attributes
    ----------
    whole, turned : cosines
        Of the changes, and of what of them does not lie along the earlier report: lengths change
        for everybody as rates of learning fall. 0 where nothing can be told.
    now, across, before : inner products
        Of reports with each other, with earlier ones, and of these with each other, each client's
        relative to the length of its earlier report. 0 where nothing can be told.
    """

    whole: Matrix
    turned: Matrix
    now: Matrix
    across: Matrix
    before: Matrix


def changes(
    updates: FloatArray, previous: FloatArray, least: float, now: Matrix | None = None
) -> Changes:
    """Return how reports changed; nothing of a client without an earlier one.

    Nor of one of whose report no more than the share `least` is new. The newest of `previous`,
    (k, n, d), stands before zeros. `now` are the inner products of the updates, if they are known.

    Everything follows from the inner products of reports and earlier ones. What cancels costs no
    more digits than `least` allows.
    """
    earlier = np.stack([_newest(reports) for reports in previous])
    now = gram(updates) if now is None else now
    before, across = gram(earlier), products_between(updates, earlier)
    squares, own = np.diagonal(before), np.diagonal(across)
    along = np.divide(own, squares, out=np.zeros_like(own), where=squares > 0)
    turned = now - across * along - (across * along).T + before * np.outer(along, along)
    told = (squares > 0) & (np.diagonal(turned) > least**2 * np.diagonal(now))
    both = np.logical_and.outer(told, told)
    lengths = np.sqrt(np.outer(squares, squares), out=np.ones_like(now), where=both)
    return Changes(
        cosines(np.where(both, now - across - across.T + before, 0.0)),
        cosines(np.where(both, turned, 0.0)),
        *(np.where(both, products / lengths, 0.0) for products in (now, across, before)),
    )


def _newest(reports: FloatArray) -> FloatArray:
    """Return the last of a client's earlier reports, (n, d), that is not zero; or else zero."""
    nothing = np.zeros_like(reports, shape=reports.shape[1:])
    return next((report for report in reports[::-1] if report.any()), nothing)


def off_diagonal(matrix: Matrix) -> Matrix:
    """Copy with NaN on the diagonal: nobody is compared with itself."""
    result = matrix.copy()
    np.fill_diagonal(result, np.nan)
    return result


def private_parts(
    inputs: RoundInputs, starts: NDArray[np.int64], axes: Matrix
) -> tuple[FloatArray, FloatArray]:
    """Return what is not public of each report, and what of that is not of its own past either.

    Both are (k, d). The round is laid out in strata; regressions are made stratum by stratum. What
    is public spans the `axes`.
    """
    updates, previous = inputs.updates, inputs.previous
    assert not isinstance(updates, Signals)
    # One block of memory for both: pages of large blocks are large as well.
    parts = np.empty((1 if previous is None else 2, *updates.shape), dtype=updates.dtype)
    unknown: FloatArray = parts[0]
    private: FloatArray = parts[-1]

    def regress(first: int, last: int) -> None:
        for begin, end in pairwise(starts[first : last + 1]):
            known = np.ascontiguousarray(axes[:, begin:end])
            left = updates[:, begin:end].astype(np.float64)
            take_off_all(left, known)
            unknown[:, begin:end] = left
            if previous is not None:
                past = previous[:, :, begin:end].astype(np.float64)
                take_off_own(left, past, known, _PUBLIC_PAST, _DEPENDENT)
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
