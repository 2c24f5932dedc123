"""Merit: the information of those who worked.

*Worked* is answered by the gate, with a stated error rate: does the client agree with the cohort
given what is public (`conditional`), is its report more than a replay of what is public or of its
own past, and do earlier rounds speak against it (`fedmerit.evidence.bets`)? *Information* is how
far what only the client could know, in this report and its last ones, points where the others go,
whatever the length of the report (`fedmerit.scorers.information`). Differences that do not last are
evened out, and accounts that share one work share one score.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedmerit.comparison import (
    changes,
    cosines,
    draw_panels,
    float_updates,
    gram,
    join_panels,
    off_diagonal,
    private_cosines,
    private_parts,
)
from fedmerit.errors import SettingError, UpdatesError
from fedmerit.evidence.bets import NAMING_RATE
from fedmerit.evidence.cohort import (
    Cohort,
    Copies,
    abstained,
    find_cohort,
    lack_of_power,
    near_copies,
    repeated_reports,
    ways_of,
)
from fedmerit.evidence.limits import LIMITS
from fedmerit.flags import Flag, Kind
from fedmerit.kernels.spans import public_axes
from fedmerit.sampling import DEFAULT_SAMPLE, check_sample, lay_out
from fedmerit.scorers.conditional import ConditionalPCA
from fedmerit.scorers.information import apart_by_data, once, shared_work, shrunk, tell
from fedmerit.types import Contributions, FloatArray, Needs, Pairs, RoundInputs, Signals
from fedmerit.validation import check_number

# All pairs are compared; of more clients than this, inside random panels.
PANEL = 256
# Why a client is undecided in a round that could judge others.
UNCLEAR = "its agreement with the others is neither enough nor too little to tell"


@dataclass(frozen=True)
class _Worked:
    """Who worked, (k,) each: what speaks against a client, and the shares behind it.

    `replayed` counts as evidence over rounds; `explained` is who is accused of it in this one;
    `present` are those of whom this round does not say that they have not worked.
    """

    cohort: Cohort
    alike: Copies
    copies: Copies
    explained_share: NDArray[np.float64]
    own_share: NDArray[np.float64]
    replayed: NDArray[np.bool_]
    explained: NDArray[np.bool_]
    repeated: NDArray[np.bool_]
    outside: NDArray[np.bool_]
    named: NDArray[np.bool_]
    standing: NDArray[np.bool_]
    shown: NDArray[np.bool_]
    present: NDArray[np.bool_]
    accused: NDArray[np.bool_]

    def flag(self, row: int, names: NDArray[np.int64], against: bool, apart: bool) -> Flag | None:
        """Return what speaks against one client.

        It points `against` the cohort, or is `apart` from those that it is nearly a copy of.
        """
        if self.explained[row]:
            return Flag(Kind.EXPLAINED, f"{self.explained_share[row]:.0%}")
        if self.repeated[row]:
            return Flag(Kind.REPEATED, f"{self.own_share[row]:.0%}")
        if self.outside[row]:
            together = self.alike.group_size[row] > 1
            return Flag(Kind.CLIQUE) if together else self.cohort.flags[row]
        if self.named[row]:
            return Flag(Kind.NAMED)
        if self.standing[row]:
            return Flag(Kind.STANDING)
        if self.copies.twin[row] >= 0 and not apart:
            return Flag(Kind.COPY, twin=str(names[self.copies.twin[row]]))
        if against:
            return Flag(Kind.REVERSED)
        return None if self.shown[row] else Flag(Kind.UNDECIDED, UNCLEAR)


@dataclass(frozen=True)
class Merit:
    """The default score: about zero for whatever public information can produce.

    Rounds of more than 256 clients are scored in random panels of at most so many: what a client
    tells is then measured against its panel, and shared work is found inside panels only.

    Parameters
    ----------
    gate
        The scorer that decides who has shown private work.
    sample
        How many parameters are looked at, ``None`` for all: drawn after the updates are in, or by
        a server once, in secret.
        Cosines then carry an error of about ``1 / sqrt(sample)``.
    naming
        False discovery rate at which evidence over earlier rounds names clients that do not work:
        as long as it stands they get neither weight nor pay. 0 names nobody.
    one_kind
        All clients hold data of one kind: none has classes, labels or a task of its own. That is
        yours to know. Then who points against the others over rounds is named whatever its reason,
        which finds flipped labels as well as flipped signs. If it is not so, honest clients are.
    """

    gate: ConditionalPCA = field(default_factory=ConditionalPCA)
    sample: int | None = DEFAULT_SAMPLE
    naming: float = NAMING_RATE
    one_kind: bool = False

    def __post_init__(self) -> None:
        check_sample(self.sample)
        if not isinstance(self.one_kind, bool):
            raise SettingError(f"one_kind must be True or False, got {self.one_kind!r}")
        check_number("naming", self.naming, least=0, below=1)

    @property
    def needs(self) -> Needs:
        """Floats, each client's past, and the evidence over rounds."""
        return Needs(floats=True, previous=True, trust=True, naming=self.naming, sample=self.sample)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs; needs float updates."""
        if isinstance(inputs.updates, Signals):
            raise UpdatesError("merit needs float updates, got signals; use method='exact'")
        if why := lack_of_power(inputs.parameters, inputs.public):
            return abstained("merit", inputs.clients, why, inputs.standing)
        if inputs.clients <= PANEL:
            return self._score_panel(inputs, np.arange(inputs.clients), rng)
        panels = draw_panels(inputs.clients, PANEL, rng)
        return join_panels(
            panels, [self._score_panel(inputs.of_clients(panel), panel, rng) for panel in panels]
        )

    def _score_panel(
        self, inputs: RoundInputs, names: NDArray[np.int64], rng: np.random.Generator
    ) -> Contributions:
        """Score clients that are all compared with each other; `names` are their numbers."""
        before = inputs.testimony
        inputs, halves, positions = lay_out(inputs, self.gate.strata, self.sample, rng)
        starts = halves[::2]
        axes = public_axes(inputs.public, starts)
        gate = self.gate.score_in(inputs, halves, rng, axes)
        assert gate.pairs is not None, "a panel is compared with itself"
        reports = float_updates(inputs, "merit")
        products = gram(reports)
        unknown, private = private_parts(inputs, starts, axes)
        cosine, left = private_cosines(private, products, LIMITS.rounding)
        whole = cosines(products)
        earlier = inputs.previous
        changed = None if earlier is None else changes(reports, earlier, LIMITS.changed, products)
        pairs = Pairs(off_diagonal(cosine), z=gate.pairs.z)
        worked = self._who_worked(inputs, gate, cosine, left)
        members, shown, past = worked.cohort.members, worked.shown, _past(inputs)
        alike = worked.copies.alike
        same = shared_work(unknown, inputs.previous, alike, ~worked.accused)
        apart = apart_by_data(unknown, inputs.previous, cosine, alike, starts)
        accounts = 1 + same.sum(axis=1)
        norms = np.sqrt(np.diagonal(products))
        counted = members if members.any() else shown
        tells, testimony = tell(private, left, inputs.testimony, reports, norms, same, counted)
        information = shrunk(tells, shown, past) / accounts
        alone = once(same)
        present = worked.present & alone
        ways = ways_of(whole, members & alone, present, changed, self.one_kind)
        evidence = worked.cohort.evidence(
            worked.explained_share, worked.replayed | worked.repeated, accounts, ways
        )
        return Contributions.of(
            "merit",
            # Who points against the others tells them nothing, whoever points there with it.
            np.where(ways.against, 0.0, information),
            flags=[
                worked.flag(row, names, bool(ways.against[row]), bool(apart[row]))
                for row in range(inputs.clients)
            ],
            eligible=~worked.accused,
            p_values=gate.p_values,
            work=_relative(tells, shown),
            testimony=_in_place(before, testimony, positions),
            pairs=pairs,
            evidence=evidence,
        )

    def _who_worked(
        self,
        inputs: RoundInputs,
        gate: Contributions,
        cosine: NDArray[np.float64],
        left: NDArray[np.float64],
    ) -> _Worked:
        """Decide by what the gate found, the cosines of private parts, and what is left of reports.

        A report of which something is left is judged by what is left, in this round or in the last
        ones together; who has worked before, by evidence over rounds and not by one odd round.
        Where a round cannot tell, what was told before stands.
        """
        assert gate.pairs is not None, "a panel is compared with itself"
        assert gate.pairs.z is not None, "the gate tests pairs"
        assert gate.evidence is not None, "the gate says what is explained"
        nobody = np.zeros(inputs.clients, dtype=np.bool_)
        named = nobody if inputs.named is None or self.naming == 0 else inputs.named
        assert not isinstance(inputs.updates, Signals)
        moved = np.count_nonzero(inputs.updates, axis=1)
        # Few parameters are explained by anything; but nothing at all is no work.
        told = (moved == 0) | (moved >= _parameters_for(inputs, 0))
        known, public = gate.evidence.replayed & told, gate.evidence.explained
        own, reports = _of_own_past(inputs, left)
        # What reports that are nearly one show each other is no agreement of two clients.
        alike = near_copies(cosine, ~nobody, self.gate.fdr)
        compared = np.where(alike.alike, np.nan, gate.pairs.z)
        find = partial(
            find_cohort,
            compared,
            parameters=inputs.parameters,
            moved=moved,
            alike=lambda rows: cosine[np.ix_(rows, rows)],
        )
        cohort = find(barred=known | named)
        repeated = repeated_reports(own, reports, cohort.members, ~(known | named))
        if repeated.any():
            cohort = find(barred=known | repeated | named)
        copies, shown = near_copies(cosine, cohort.members, self.gate.fdr), cohort.shown
        nothing_left = public >= 1 - LIMITS.nothing_left
        agrees = nobody if inputs.agrees is None else inputs.agrees
        replayed = known & (nothing_left | ~(shown | agrees))
        trusted = _trusted(inputs, cohort.members)
        explained = replayed & (nothing_left | ~trusted)
        outside = np.array([flag is not None for flag in cohort.flags]) & ~known & ~trusted
        standing = nobody if inputs.standing is None else inputs.standing & ~shown
        idle = explained | repeated | outside
        accused = idle | named | standing
        return _Worked(
            cohort=cohort,
            alike=alike,
            copies=copies,
            explained_share=public,
            own_share=own,
            replayed=replayed,
            explained=explained,
            repeated=repeated,
            outside=outside,
            named=named,
            standing=standing,
            shown=(shown | trusted) & ~accused,
            present=~idle,
            accused=accused,
        )


def _parameters_for(inputs: RoundInputs, own: NDArray[np.int64] | int) -> NDArray[np.int64] | int:
    """Return how many parameters tell what is public in a report, and what so many of its own."""
    public = 0 if inputs.public is None else len(inputs.public)
    return LIMITS.parameters_per_vector * (1 + own + public)


def _of_own_past(
    inputs: RoundInputs, left: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the share of each report that its own past explains, and how many reports that is.

    Nothing where more reports stand behind it than may be held against the client.
    """
    if inputs.previous is None:
        return np.zeros(inputs.clients), np.zeros(inputs.clients, dtype=np.int64)
    moved = np.count_nonzero(np.any(inputs.previous, axis=1), axis=1)
    reports = np.any(inputs.previous, axis=2).sum(axis=1)
    held = moved >= _parameters_for(inputs, reports)
    if inputs.sizes is not None:
        held &= reports <= inputs.sizes / LIMITS.parameters_per_vector
    reports = np.where(held, reports, 0)
    shares = np.where(reports > 0, 1 - left, 0.0)
    if inputs.repeated is None or inputs.reports is None:
        return shares, reports
    return np.maximum(shares, inputs.repeated), np.maximum(reports, inputs.reports)


def _trusted(inputs: RoundInputs, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return who has told enough so far, for clients about whom this round says nothing."""
    if inputs.trust is None or not (inputs.trust > 0).any():
        return np.zeros(inputs.clients, dtype=np.bool_)
    known = members & (inputs.trust > 0)
    usual = np.median(inputs.trust[known if known.any() else inputs.trust > 0])
    trusted: NDArray[np.bool_] = inputs.trust >= LIMITS.least_trust * usual
    return trusted


def _in_place(
    before: FloatArray | None, testimony: FloatArray, positions: NDArray[np.int64]
) -> FloatArray | None:
    """Return the testimony with its parameters where the round had them; None if nobody keeps it.

    It is put in order in place where it can be. What was told of parameters that were not looked at
    now counts less from round to round.
    """
    if before is None:
        return None
    if len(positions) == before.shape[1] and testimony.dtype == before.dtype:
        for told in testimony:  # a client at a time: no second copy of all
            told[positions] = told.copy()
        return testimony
    whole: FloatArray = before * before.dtype.type(1 - LIMITS.newest)
    for row, told in zip(whole, testimony, strict=True):
        row[positions] = told
    return whole


def _relative(tells: NDArray[np.float64], shown: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return what those who worked told, relative to their median."""
    counted = shown & (tells > 0)
    usual = float(np.median(tells[counted])) if counted.any() else 1.0
    relative: NDArray[np.float64] = np.where(counted, tells / usual, 0.0)
    return relative


def _past(inputs: RoundInputs) -> NDArray[np.float64] | None:
    """Return what each client told per round so far; NaN for a newcomer."""
    if inputs.trust is None or inputs.rounds is None:
        return None
    known = inputs.rounds > 0
    past = np.full(len(known), np.nan)
    np.divide(inputs.trust, inputs.rounds, out=past, where=known)
    return past
