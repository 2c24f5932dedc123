"""Merit: evidence of private work, times its amount, times its orientation.

=========  =====================================================================================
evidence   does the client agree with the cohort given public information (`conditional`)? yes / no
work       how far its private part agrees with the private parts of typical peers, size included
quality    does its whole update point where the clients with work point? signed root, at most 1
=========  =====================================================================================

``merit = max(work, 0) * quality`` where there is evidence, else 0; and 0 for whom evidence over
earlier rounds names (`fedmerit.evidence.bets`). The private part is what neither the public
vectors nor the client's own previous report explain. How this form was chosen, and what was tried
beside it, is written up in docs/decisions and docs/results.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedmerit.comparison.pairs import draw_panels, join_panels
from fedmerit.comparison.products import cosines, off_diagonal, round_products
from fedmerit.errors import UpdatesError
from fedmerit.evidence.bets import NAMING_RATE
from fedmerit.evidence.cohort import Copies, breadth_of, find_cohort, near_copies
from fedmerit.evidence.gate import abstained, lack_of_power
from fedmerit.evidence.limits import LIMITS
from fedmerit.flags import Flag, Kind
from fedmerit.sampling import DEFAULT_SAMPLE, check_sample, lay_out
from fedmerit.scorers.conditional import ConditionalPCA
from fedmerit.types import Contributions, Needs, Pairs, RoundInputs, Signals
from fedmerit.validation import check_number

# Amounts are compared between all pairs; of more clients than this, inside random panels.
PANEL = 256
# Why a client is undecided in a round that could judge others.
UNCLEAR = "the round does not agree enough to tell"


@dataclass(frozen=True)
class Merit:
    """The default score: about zero for whatever public information can produce.

    Rounds of more than 256 clients are scored in random panels of at most so many: a client's
    amount of work is then measured against its panel, and near-copies are found inside panels only.

    Parameters
    ----------
    gate
        The scorer that decides who has shown private work.
    sample
        How many parameters are looked at, drawn anew after the updates are in; ``None`` for all.
        Cosines then carry an error of about ``1 / sqrt(sample)``.
    naming
        False discovery rate at which evidence over earlier rounds names clients that do not work:
        as long as it stands they get neither weight nor pay. 0 names nobody.
    """

    gate: ConditionalPCA = field(default_factory=ConditionalPCA)
    sample: int | None = DEFAULT_SAMPLE
    naming: float = NAMING_RATE

    def __post_init__(self) -> None:
        check_sample(self.sample)
        check_number("naming", self.naming, least=0, below=1)

    @property
    def needs(self) -> Needs:
        """Floats, each client's past, and the evidence over rounds."""
        return Needs(floats=True, previous=True, trust=True, naming=self.naming, sample=True)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; needs float updates."""
        if isinstance(inputs.updates, Signals):
            raise UpdatesError("merit needs float updates, got signals; use method='exact'")
        if why := lack_of_power(inputs.parameters, inputs.public):
            return abstained("merit", inputs.clients, why)
        panels = draw_panels(inputs.clients, PANEL, rng)
        return join_panels(
            panels, [self._score_panel(_part(inputs, panel), panel, rng) for panel in panels]
        )

    def _score_panel(
        self, inputs: RoundInputs, names: NDArray[np.int64], rng: np.random.Generator
    ) -> Contributions:
        """Score clients that are all compared with each other; `names` are their numbers."""
        inputs, starts = lay_out(inputs, self.gate.strata, self.sample, rng)
        gate = self.gate.score_in(inputs, starts, rng)
        assert gate.pairs is not None, "a panel is compared with itself"
        assert gate.pairs.z is not None, "the gate tests pairs"
        assert gate.evidence is not None, "the gate says what is explained"
        z, shares = gate.pairs.z, gate.evidence.explained
        whole, private = round_products(inputs, starts)
        cosine, sizes = private_parts(private, whole)
        earlier = np.zeros(inputs.clients) if inputs.trust is None else inputs.trust
        named = np.zeros(inputs.clients, dtype=np.bool_)
        if inputs.named is not None and self.naming > 0:
            named = inputs.named
        explained = np.array([f is not None and f.kind is Kind.EXPLAINED for f in gate.flags])
        # What reports that are nearly one show each other is no agreement of two clients.
        everybody = np.ones(inputs.clients, dtype=np.bool_)
        alike = near_copies(cosine, everybody, self.gate.fdr)
        apart = np.where(alike.alike, np.nan, z)
        cohort = find_cohort(apart, explained | named, inputs.parameters)
        copies = near_copies(cosine, cohort.members, self.gate.fdr)
        outside = np.array([flag is not None for flag in cohort.flags])
        work = work_of(cosine, sizes, alike, inputs.parameters)
        work = _at_most_typical(work, z, cohort.members)
        trust = np.where(named, 0.0, np.maximum(earlier + work, 0.0)) + 1e-12
        quality, reversed_ = orientation_of(whole, trust)
        accused = explained | named | outside
        shown = ~accused & (cohort.members | _trusted(earlier, work, cohort.members))
        scores = np.where(shown, np.maximum(work, 0.0) * quality, 0.0) / copies.group_size
        reversed_ &= ~accused

        def flag(client: int) -> Flag | None:
            if explained[client]:
                return gate.flags[client]
            if outside[client]:
                together = alike.group_size[client] > 1
                return Flag(Kind.CLIQUE) if together else cohort.flags[client]
            if named[client]:
                return Flag(Kind.NAMED)
            if copies.twin[client] >= 0:
                return Flag(Kind.COPY, twin=str(names[copies.twin[client]]))
            if reversed_[client]:
                return Flag(Kind.REVERSED)
            return None if shown[client] else Flag(Kind.UNDECIDED, UNCLEAR)

        return Contributions.of(
            "merit",
            scores,
            flags=[flag(client) for client in range(inputs.clients)],
            eligible=~accused & ~reversed_,
            p_values=gate.p_values,
            work=work,
            pairs=Pairs(off_diagonal(cosine), z=z),
            evidence=cohort.evidence(shares, copies.group_size),
        )


def _part(inputs: RoundInputs, rows: NDArray[np.int64]) -> RoundInputs:
    """Return the round of some of its clients; all of them in order are taken as they are."""
    if len(rows) == inputs.clients:
        return inputs
    assert not isinstance(inputs.updates, Signals)
    return replace(
        inputs,
        updates=inputs.updates[rows],
        previous=None if inputs.previous is None else inputs.previous[rows],
        trust=None if inputs.trust is None else inputs.trust[rows],
        named=None if inputs.named is None else inputs.named[rows],
    )


def _at_most_typical(
    work: NDArray[np.float64], z: NDArray[np.float64], members: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the work, at most that of a typical member for who agrees with few of them only.

    A group that forecasts the same from public information is joined to the cohort where it is
    right, and agrees with itself beyond measure.
    """
    if not members.any():
        return work
    narrow = breadth_of(z, members) < LIMITS.broad
    return np.where(narrow, np.minimum(work, np.median(work[members])), work)


def _trusted(
    earlier: NDArray[np.float64],
    work: NDArray[np.float64],
    members: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return who has shown work so far, for clients about whom the round's agreement says nothing.

    Where the round has no cohort, only earlier rounds count.
    """
    if members.any():
        shown = earlier + work
        yardstick = float(np.median(shown[members]))
    else:
        shown = earlier
        yardstick = float(np.median(shown[shown > 0])) if (shown > 0).any() else np.inf
    trusted: NDArray[np.bool_] = shown >= LIMITS.least_trust * max(yardstick, 1e-300)
    return trusted


def private_parts(
    private: NDArray[np.float64], whole: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cosines of the private parts and their sizes, from the Gram matrices."""
    norms = np.sqrt(np.diagonal(whole))
    longest = LIMITS.norm_cap * float(np.median(norms))
    shrink = np.divide(longest, norms, out=np.ones(len(whole)), where=norms > longest)
    private_norms = np.sqrt(np.maximum(np.diagonal(private), 0.0))
    private_norms = np.where(private_norms > LIMITS.rounding * norms, private_norms, 0.0)
    return cosines(private, private_norms), private_norms * shrink


def work_of(
    cosine: NDArray[np.float64], sizes: NDArray[np.float64], copies: Copies, parameters: int
) -> NDArray[np.float64]:
    """Return each client's work: how far its private part agrees with those of others.

    Cosines that independent vectors of so many `parameters` could show are no work. Neither is what
    near-copies show each other, as long as they are fewer than half of the clients: they share one
    work, and six of one mind would else be paid more than six times.
    """
    clients = len(cosine)
    large = LIMITS.size_cap * float(np.median(sizes))
    # Where most have no private part, any is large.
    share = np.divide(sizes, large, out=(sizes > 0).astype(np.float64), where=sizes < large)
    apart = ~copies.alike | (2 * copies.group_size >= clients)[:, None]
    np.fill_diagonal(apart, False)
    # No pair counts beyond what the better of its two clients typically shows: colluders agree
    # perfectly with each other and with nobody else.
    typical = np.nanquantile(np.where(apart, cosine, np.nan), LIMITS.better_peers, axis=1)
    # Disagreement is not held against anyone: with few classes per client, most honest pairs pull
    # apart, and the work of either is real.
    counted = np.where(apart & (cosine > LIMITS.chance / np.sqrt(parameters)), cosine, 0.0)
    bounded = np.minimum(counted, np.maximum(np.maximum.outer(typical, typical), 0.0))
    agreement = bounded.sum(axis=1) / apart.sum(axis=1)
    # Noise makes a report longer in the measure in which it makes it agree less. So that it does
    # not pay, agreement below the median counts twice.
    coherence = np.clip(agreement / max(float(np.median(agreement)), 1e-300), 0.0, 1.0)
    work: NDArray[np.float64] = share * coherence * agreement
    return work


def orientation_of(
    whole: NDArray[np.float64], trust: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return each client's quality in [-1, 1], and who is reversed.

    Orientation is the mean cosine with the others, weighted by trust, relative to the cohort's.
    More than the cohort's is not paid: a replayed global update inside a report could fake it.
    """
    cosine = cosines(whole)
    weights = np.tile(trust, (len(trust), 1))
    np.fill_diagonal(weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    toward = (weights * cosine).sum(axis=1)
    direction = float((trust * toward).sum() / trust.sum())
    reversed_ = _reversed(toward, direction, trust)
    if direction < LIMITS.clear_direction:
        # No common direction, as with few classes per client: who points away is not worse.
        toward = (weights * np.maximum(cosine, 0.0)).sum(axis=1)
    reference = float((trust * toward).sum() / trust.sum())
    relative = np.clip(toward / max(reference, LIMITS.least_direction), -1.0, 1.0)
    relative[reversed_] = -1.0
    return np.sign(relative) * np.sqrt(np.abs(relative)), reversed_


def _reversed(
    toward: NDArray[np.float64], direction: float, trust: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return who points against a cohort that points one way."""
    against: NDArray[np.bool_] = toward <= LIMITS.reversed_at * direction
    if direction < LIMITS.least_direction or 2 * against.sum() >= len(toward):
        return np.zeros_like(against)
    rest = toward[~against]
    centre = float(np.median(rest))
    spread = LIMITS.sd_per_mad * float(np.median(np.abs(rest - centre)))
    return (
        against
        & (centre <= LIMITS.one_way * direction)
        & (toward < centre - LIMITS.reversed_deviations * spread)
        & (trust <= LIMITS.little_trust * np.median(trust[~against]))
    )
