"""Conditional PCA: agreement given what everybody knows.

A client that replays the last global update agrees with honest ones without having worked. So
agreement is measured inside strata of parameters about which the public knows the same, and on what
remains of a report there after regression on the public vectors. Of that only the sign counts: how
*large* a change is can be guessed from public magnitudes, which way it goes cannot.

Whatever can be computed from public information scores zero in expectation: the score is evidence
of private work, and says little about how much that work was worth.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedmerit.comparison import (
    check_enough_parameters,
    cosines,
    gram,
    plan_comparisons,
    score_groups,
)
from fedmerit.evidence.cohort import (
    abstained,
    cohort_of,
    explained_reports,
    lack_of_power,
)
from fedmerit.evidence.decisions import agreeing_z, discoveries
from fedmerit.evidence.limits import LIMITS
from fedmerit.flags import Flag, Kind
from fedmerit.kernels.residual import POSITIVE, TIE, residual_signs
from fedmerit.kernels.spans import public_axes
from fedmerit.sampling import (
    DEFAULT_SAMPLE,
    DEFAULT_STRATA,
    check_sample,
    choose_strata,
    lay_out,
    take,
)
from fedmerit.types import (
    Contributions,
    FloatArray,
    Needs,
    RoundInputs,
    Signals,
)
from fedmerit.validation import check_count, check_finite, check_number

_PRECISION = LIMITS.precision_roundings * float(np.finfo(np.float32).eps)
# So many clients' reports are held as floats, and fitted together, at a time.
TOGETHER = 16


@dataclass(frozen=True)
class ConditionalPCA:
    """Agreement given public information, with p-values and flags.

    Parameters
    ----------
    peers
        How many peers each client is compared with, by a random plan that keeps all connected;
        ``None`` for all of them.
    strata
        How many strata of the first public vector, over all layers.
    fdr
        False discovery rate: the expected share of clients without private work among those that
        are accepted as having worked.
    explained
        A report is flagged as public information only if it explains at least this share of it,
        and more than is typical in the same round (`fedmerit.evidence.cohort`).
    sample
        How many parameters are looked at, ``None`` for all: drawn after the updates are in, or by
        a server once, in secret.
    mixed
        Honest clients may pull apart, as those with many and with few clicks do: significant
        agreement with one member of the cohort is enough, and disagreement is not held against a
        client. In addition to `fdr`, some client without private work then joins the cohort in at
        most one round of a hundred.
    """

    peers: int | None = None
    strata: int = DEFAULT_STRATA
    fdr: float = 0.01
    explained: float = 0.5
    sample: int | None = DEFAULT_SAMPLE
    mixed: bool = False

    def __post_init__(self) -> None:
        check_count("strata", self.strata, least=1)
        check_number("fdr", self.fdr, above=0, below=1)
        check_number("explained", self.explained, above=0, most=1)
        check_sample(self.sample)

    @property
    def needs(self) -> Needs:
        """A sample of the parameters."""
        return Needs(sample=self.sample)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs."""
        if why := lack_of_power(inputs.parameters, inputs.public):
            return abstained("conditional", inputs.clients, why)
        if isinstance(inputs.updates, Signals):
            laid, halves, _ = lay_out(inputs, self.strata, self.sample, rng)
            return self.score_in(laid, halves, rng)
        positions, halves = choose_strata(
            inputs.parameters,
            inputs.public,
            inputs.layers,
            self.strata,
            None if inputs.sampled else self.sample,
            rng,
        )
        signs = np.empty((inputs.clients, len(positions)), dtype=np.uint8)
        explained = np.empty(inputs.clients)
        known = None if inputs.public is None else take(inputs.public, positions)
        axes = public_axes(known, halves[::2])
        # A few clients at a time: of the others only one byte per parameter is kept.
        for block in _blocks(inputs.clients):
            reports = take(inputs.updates[block], positions)
            check_finite(reports, name="updates", positions=positions, first=block.start)
            explained[block] = write_unexplained_signs(reports, axes, halves, signs[block])
            del reports  # its memory serves the next block, or the counting of pairs
        return self.judge(Signals(signs, POSITIVE + 1), explained, halves, rng)

    def score_in(
        self,
        inputs: RoundInputs,
        halves: NDArray[np.int64],
        rng: np.random.Generator,
        axes: NDArray[np.float64] | None = None,
    ) -> Contributions:
        """Score a round that is laid out in strata, for callers that use the same ones.

        They may have the `axes` of what is public.
        """
        if isinstance(inputs.updates, Signals):
            # Levels cannot be regressed; the strata still condition on the public vector.
            return self.judge(inputs.updates, None, halves, rng)
        signs = np.empty(inputs.updates.shape, dtype=np.uint8)
        axes = public_axes(inputs.public, halves[::2]) if axes is None else axes
        explained = write_unexplained_signs(inputs.updates, axes, halves, signs)
        return self.judge(Signals(signs, POSITIVE + 1), explained, halves, rng)

    def judge(
        self,
        signals: Signals,
        explained: NDArray[np.float64] | None,
        halves: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Contributions:
        """Score signals laid out in halves of strata; public information explains these shares.

        They are signs, or levels of which nobody knows what explains them.
        """
        check_enough_parameters(signals)
        moved = None
        if explained is None:
            explained = np.zeros(len(signals.values))
        else:
            moved = np.count_nonzero(signals.values != TIE, axis=1)
        order = np.arange(signals.values.shape[1])
        ordered = plan_comparisons(len(signals.values), self.peers, rng)
        pairs = score_groups(signals, order, halves, ordered)
        scores, epsilon = pairs.mean(pairs.score), pairs.mean(pairs.certificate)
        matrices = pairs.matrices()
        reached, p_values = agreeing_z(pairs.clients, ordered, pairs.z)
        found = discoveries(p_values, self.fdr)
        replays = explained >= 1 - LIMITS.nothing_left
        looked_at = signals.values.shape[1]
        find = partial(
            cohort_of,
            ordered,
            pairs.z,
            parameters=looked_at,
            moved=moved,
            alike=None if moved is None else partial(_cosines_of_signs, signals.values),
            one_sided=self.mixed,
        )
        members = find(barred=replays).members
        known = explained_reports(explained, members, self.explained, self.fdr)
        cohort = find(barred=known)
        evidence = cohort.evidence(explained, known)
        accepted = found & ~known
        if self.mixed:
            accepted |= cohort.members
        flags = _flags(reached, accepted, known, explained)
        eligible = np.array([flag is None or not flag.accuses for flag in flags])
        return Contributions.of(
            "conditional",
            scores,
            flags=flags,
            eligible=eligible,
            p_values=p_values,
            epsilon=epsilon,
            pairs=matrices,
            evidence=evidence,
        )


def _flags(
    reached: NDArray[np.float64],
    accepted: NDArray[np.bool_],
    known: NDArray[np.bool_],
    explained: NDArray[np.float64],
) -> tuple[Flag | None, ...]:
    """Return who is flagged and why: public information explains a report, or nobody agrees."""
    # No agreement is evidence only while the cohort agrees.
    alone = np.zeros_like(accepted)
    if accepted.sum() >= LIMITS.fewest_members:
        typical = np.median(reached[accepted])
        alone = ~accepted & (typical >= LIMITS.margin * np.maximum(reached, 1.0))

    def flag(client: int) -> Flag | None:
        if known[client]:
            return Flag(Kind.EXPLAINED, f"{explained[client]:.0%}")
        return Flag(Kind.INDEPENDENT) if alone[client] else None

    return tuple(flag(client) for client in range(len(accepted)))


def _cosines_of_signs(signs: NDArray[np.uint8], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cosines of some rows of signs."""
    return cosines(gram(signs[rows].astype(np.float32) - TIE))


def _blocks(clients: int) -> Iterator[slice]:
    """Cut clients into blocks of about TOGETHER; up to twice as many are one block.

    A short block takes nearly as long as a whole one: what is public is the same for both.
    """
    count = 1 if clients <= 2 * TOGETHER else -(-clients // TOGETHER)
    bounds = [clients * n // count for n in range(count + 1)]
    yield from map(slice, bounds, bounds[1:])


def write_unexplained_signs(
    updates: FloatArray,
    axes: NDArray[np.float64],
    halves: NDArray[np.int64],
    values: NDArray[np.uint8],
) -> NDArray[np.float64]:
    """Write the signs of what public information leaves of each report; return what it explains.

    What is public spans the `axes`. Half h holds the parameters ``halves[h]:halves[h + 1]``, and
    is fitted by itself; `values` has the shape of the updates. The share explained is measured in
    absolute deviations: 1 for a replay, about 0 for private work.
    """
    clients = len(updates)
    deviations = np.empty((clients, len(halves) - 1, 2))
    residual_signs(updates, axes, halves, _PRECISION, values, deviations)
    left, spread = deviations.sum(axis=1).T
    # A constant report has no spread; everybody can make one.
    unexplained: NDArray[np.float64] = np.divide(
        left, spread, out=np.zeros(clients), where=spread > 0
    )
    return 1 - unexplained
