"""Merit: evidence of private work, times its amount, times its orientation.

=========  =====================================================================================
evidence   does the client agree with the cohort given public information (`conditional`)? yes / no
work       how far its private part agrees with the private parts of typical peers, size included
quality    does its whole update point where the clients with work point? signed root, at most 1
=========  =====================================================================================

``merit = max(work, 0) * quality`` where there is evidence, else 0; and 0 for whom evidence over
earlier rounds names (`fedmerit.scorers.wealth`). The private part is what neither the public
vectors nor the client's own previous report explain. How this form was chosen, and what was tried
beside it, is written up in docs/decisions and docs/results.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import UpdatesError
from fedmerit.scorers.cohort import Copies, breadth_of, find_cohort, near_copies
from fedmerit.scorers.conditional import ConditionalPCA
from fedmerit.scorers.panels import draw_panels, join_panels
from fedmerit.scorers.private import inner_products
from fedmerit.scorers.products import cosines, off_diagonal
from fedmerit.scorers.sampling import DEFAULT_SAMPLE, check_sample
from fedmerit.scorers.strata import lay_out
from fedmerit.scorers.wealth import NAMED, NAMING_RATE
from fedmerit.types import Contributions, RoundInputs, Signals
from fedmerit.validation import check_number

# Updates longer than this many median norms count as if they had that norm.
_NORM_CAP = 2.0
# Independent vectors have cosines of about 1 / sqrt(parameters); so many times that is chance.
_CHANCE = 3.0
# What a client typically shows is what it shows with the better quarter of its peers.
_BETTER_PEERS = 0.75
# Private parts count by their norm, up to this many median norms.
_SIZE_CAP = 2.0
# A cohort whose updates agree less than this has no direction to compare with.
_LEAST_DIRECTION = 0.02
# Of normal values, the standard deviation is so many median absolute deviations.
_SD_PER_MAD = 1.4826
# Amounts are compared between all pairs; of more clients than this, inside random panels.
PANEL = 256
# A private part below this share of the update is rounding.
_ROUNDING = 3e-6
# A client is reversed that points against the cohort by at least half of what the cohort agrees...
_REVERSED = -0.5
# ...so many robust standard deviations below those who do not...
_FAR_BELOW = 5.0
# ...who point one way: what stands against them does not pull down what they agree on...
_ONE_WAY = 1.25
# ...and whose private work is shared by few: it has at most this share of their trust. Where honest
# clients pull apart, as with few classes each, one of these fails (docs/decisions/0009).
_LITTLE_TRUST = 0.2
# In an undecided round a client is paid if it has shown this share of the cohort's trust.
_LEAST_TRUST = 0.1
# Who agrees with most members less than this, relative to a typical one, agrees with few.
_BROAD = 0.75
# Below this much agreement of the trusted, who points away from them is not paid less.
_CLEAR_DIRECTION = 0.25


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

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; needs float updates."""
        if isinstance(inputs.updates, Signals):
            raise UpdatesError("merit needs float updates, got signals; use method='exact'")
        panels = draw_panels(inputs.clients, PANEL, rng)
        return join_panels(
            panels, [self._score_panel(_part(inputs, panel), panel, rng) for panel in panels]
        )

    def _score_panel(
        self, inputs: RoundInputs, names: NDArray[np.int64], rng: np.random.Generator
    ) -> Contributions:
        """Score clients that are all compared with each other; `names` are their numbers."""
        inputs, starts = lay_out(inputs, self.gate.strata, self.sample, rng)
        evidence = self.gate.score_in(inputs, starts, rng)
        whole, private = inner_products(inputs, starts)
        cosine, sizes = private_parts(private, whole)
        copies = near_copies(cosine)
        earlier = np.zeros(inputs.clients) if inputs.trust is None else inputs.trust
        named = np.zeros(inputs.clients, dtype=np.bool_)
        if inputs.named is not None and self.naming > 0:
            named = inputs.named
        explained = evidence.explained >= self.gate.explained
        cohort = find_cohort(evidence.z, explained | named)
        work = work_of(cosine, sizes, copies, inputs.parameters)
        work = _at_most_typical(work, evidence.z, cohort.members)
        trust = np.where(named, 0.0, np.maximum(earlier + work, 0.0)) + 1e-12
        quality, reversed_ = orientation_of(whole, trust)
        undecided = np.array([not reason for reason in cohort.reasons])
        trusted = _trusted(earlier, work, cohort.members)
        passed = ~explained & ~named & (cohort.members | (undecided & trusted))
        scores = np.where(passed, np.maximum(work, 0.0) * quality, 0.0) / copies.group_size
        reversed_ &= passed

        def reason(client: int) -> str:
            if explained[client]:
                return evidence.reasons[client]
            if cohort.reasons[client]:
                return cohort.reasons[client]
            if named[client]:
                return NAMED
            if copies.twin[client] >= 0:
                return f"near-copy of client {names[copies.twin[client]]}"
            return "reversed" if reversed_[client] else ""

        reasons = tuple(reason(client) for client in range(inputs.clients))
        return Contributions.of(
            "merit",
            scores,
            pairwise=off_diagonal(cosine),
            z=evidence.z.copy(),
            p_values=evidence.p_values.copy(),
            flagged=np.array([bool(text) for text in reasons]),
            reasons=reasons,
            eligible=passed & ~reversed_,
            copies=copies.group_size,
            evidence=cohort.evidence,
            explained=evidence.explained.copy(),
            work=work,
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
    narrow = breadth_of(z, members) < _BROAD
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
    trusted: NDArray[np.bool_] = shown >= _LEAST_TRUST * max(yardstick, 1e-300)
    return trusted


def private_parts(
    private: NDArray[np.float64], whole: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cosines of the private parts and their sizes, from the Gram matrices."""
    norms = np.sqrt(np.diagonal(whole))
    longest = _NORM_CAP * float(np.median(norms))
    shrink = np.divide(longest, norms, out=np.ones(len(whole)), where=norms > longest)
    private_norms = np.sqrt(np.maximum(np.diagonal(private), 0.0))
    private_norms = np.where(private_norms > _ROUNDING * norms, private_norms, 0.0)
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
    large = _SIZE_CAP * float(np.median(sizes))
    # Where most have no private part, any is large.
    share = np.divide(sizes, large, out=(sizes > 0).astype(np.float64), where=sizes < large)
    apart = ~copies.alike | (2 * copies.group_size >= clients)[:, None]
    np.fill_diagonal(apart, False)
    # No pair counts beyond what the better of its two clients typically shows: colluders agree
    # perfectly with each other and with nobody else.
    typical = np.nanquantile(np.where(apart, cosine, np.nan), _BETTER_PEERS, axis=1)
    # Disagreement is not held against anyone: with few classes per client, most honest pairs pull
    # apart, and the work of either is real.
    counted = np.where(apart & (cosine > _CHANCE / np.sqrt(parameters)), cosine, 0.0)
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
    if direction < _CLEAR_DIRECTION:
        # No common direction, as with few classes per client: who points away is not worse.
        toward = (weights * np.maximum(cosine, 0.0)).sum(axis=1)
    reference = float((trust * toward).sum() / trust.sum())
    relative = np.clip(toward / max(reference, _LEAST_DIRECTION), -1.0, 1.0)
    relative[reversed_] = -1.0
    return np.sign(relative) * np.sqrt(np.abs(relative)), reversed_


def _reversed(
    toward: NDArray[np.float64], direction: float, trust: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return who points against a cohort that points one way."""
    against: NDArray[np.bool_] = toward <= _REVERSED * direction
    if direction < _LEAST_DIRECTION or 2 * against.sum() >= len(toward):
        return np.zeros_like(against)
    rest = toward[~against]
    centre = float(np.median(rest))
    spread = _SD_PER_MAD * float(np.median(np.abs(rest - centre)))
    return (
        against
        & (centre <= _ONE_WAY * direction)
        & (toward < centre - _FAR_BELOW * spread)
        & (trust <= _LITTLE_TRUST * np.median(trust[~against]))
    )
