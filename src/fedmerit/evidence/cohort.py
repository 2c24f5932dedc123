"""Who can be told from somebody who worked: decisions against what is typical in the same round.

The cohort is those who agree; beside it there are cliques, near-copies, reports that are public
information, and clients who point against it. Honest reports of a convex model are explained by
public information to three quarters, those of a large network to a twentieth. So no share by itself
speaks against a client: what is judged is whether its report leaves less unexplained than a report
of this cohort would, with a stated chance of an error; and where the round cannot decide that,
nobody is judged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from fedmerit.comparison import Changes
from fedmerit.evidence.decisions import (
    FEWEST,
    far_below,
    middle_and_spread,
    spreads_below,
    student_quantile,
    upper_quantile,
)
from fedmerit.evidence.limits import LIMITS
from fedmerit.flags import Flag, Kind
from fedmerit.types import Contributions, Evidence, FloatArray

_TINY = 1e-300
# Of more clients than this, so many tell whether they are alike.
_LOOKED_AT = 256
Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]
# The cosines of some clients' reports, without what is public, from their rows: (n,) to (n, n).
Alike = Callable[[NDArray[np.int64]], Floats]


@dataclass(frozen=True)
class Copies:
    """Groups of near-copies.

    Attributes
    ----------
    alike : (k, k) bool
        Who is nearly a copy of whom; nobody of itself.
    group_size : (k,) int
        How many share one work.
    twin : (k,) int
        One client that this one is nearly a copy of; -1 for none.
    """

    alike: Booleans
    group_size: NDArray[np.int64]
    twin: NDArray[np.int64]


@dataclass(frozen=True)
class Ways:
    """Who points against the cohort, and who is turned round, (k,) each.

    Attributes
    ----------
    against : (k,) bool
        Who points against the members in this round.
    way : (k,) int
        -1 for who is turned round, 1 for who is surely not, 0 where neither can be told.
    power : (k,) float
        The chance that a report that is turned round would be seen as such.
    """

    against: Booleans
    way: NDArray[np.int8]
    power: Floats


@dataclass(frozen=True)
class Cohort:
    """The largest group of clients that agree significantly, and how everybody agrees with it.

    Attributes
    ----------
    members : (k,) bool
        Who belongs to it; nobody where no two clients agree.
    agreement : (k,) float
        Each client's mean z with the members.
    typical : float
        The median of that over the members: what the round has to offer.
    least : (k,) float
        What a client that works shows at least: a third of what most pairs of members show, and of
        what three quarters of the members do; less where it moved fewer parameters than these; 0
        where the members are not most of those who agree with anybody.
    deviation : (k,) float
        Standard deviation of that mean for a client that is independent of all members.
    flags : tuple of Flag or None
        Why a client is clearly outside; None for members and where it is not clear.
    """

    members: Booleans
    agreement: Floats
    typical: float
    least: Floats
    deviation: Floats
    flags: tuple[Flag | None, ...]

    @property
    def shown(self) -> Booleans:
        """Who agrees with the members as those who work do, whether or not it is one of them.

        One client of a hundred rounds that is independent of all does, at most.
        """
        significant = upper_quantile(LIMITS.family_error / len(self.members)) * self.deviation
        enough: Booleans = self.agreement >= np.maximum(self.least, significant)
        return self.members | (enough & self.members.any())

    def evidence(
        self,
        explained: Floats,
        replayed: Booleans,
        copies: Floats | None = None,
        ways: Ways | None = None,
    ) -> Evidence:
        """Return it as the evidence of a round; nobody copies or points any way by default."""
        nobody = np.zeros(len(self.members))
        return Evidence(
            self.agreement,
            np.full(len(self.members), self.typical),
            self.least,
            self.deviation,
            explained,
            replayed,
            np.ones(len(self.members)) if copies is None else copies,
            self.members,
            nobody.astype(np.int8) if ways is None else ways.way,
            nobody if ways is None else ways.power,
        )


def find_cohort(
    z: Floats,
    barred: Booleans,
    parameters: int,
    moved: NDArray[np.int64] | None = None,
    alike: Alike | None = None,
) -> Cohort:
    """Find the cohort from the matrix of pairwise z of a round (NaN: not compared)."""
    rows, columns = np.nonzero(~np.isnan(z))
    ordered = np.column_stack((rows, columns))
    return cohort_of(ordered, z[rows, columns], barred, parameters, moved=moved, alike=alike)


def cohort_of(
    ordered: NDArray[np.int64],
    z: Floats,
    barred: Booleans,
    parameters: int,
    *,
    moved: NDArray[np.int64] | None = None,
    alike: Alike | None = None,
    one_sided: bool = False,
) -> Cohort:
    """Find the cohort from ordered pairs of clients and their z over so many `parameters`.

    How many of these each client `moved`, (k,), if they did not move all: z grows with the root of
    the parameters that tell, so who moved fewer than the members shows less. With `one_sided`, a
    client's agreement is the mean of its positive z, less what independent clients have:
    disagreement is not held against it. `alike` gives cosines of reports, where z does not say that
    those beside a smaller cohort agree.

    Clients are joined where their agreement is significant, at a family-wise error over all pairs;
    the largest connected group is the cohort. Colluders who agree only among themselves form a
    smaller group as long as they are fewer than the honest ones. Who is `barred`, (k,), joins no
    group: what is left of a replay is rounding, and replays of the same update share it.

    No agreement is evidence only while the cohort agrees: a client outside is flagged only if one
    that agrees a third as much as is typical, and as the quarter of the members does that agrees
    least, would have so little agreement by a chance of at most `LIMITS.accusing` over all clients.
    Where those outside are more than the members, they must not agree with each other, either, and
    what is typical is what the members agree beyond what joined them.
    """
    clients = len(barred)
    admitted = ~barred[ordered].any(axis=1)
    pairs = max(int(admitted.sum()) // 2, 1)
    threshold = upper_quantile(LIMITS.family_error / pairs)
    group = _connected(clients, ordered[(z > threshold) & admitted])
    together = np.bincount(group, minlength=clients)
    largest = together.max()
    if largest == 1:
        nobody = np.zeros(clients, dtype=np.bool_)
        nothing = np.zeros(clients)
        return Cohort(nobody, nothing, 0.0, nothing, np.ones(clients), (None,) * clients)
    # Of groups of equal size, the one that agrees most is the cohort.
    inside = group[ordered[:, 0]] == group[ordered[:, 1]]
    strength = np.bincount(group[ordered[inside, 0]], z[inside], minlength=clients)
    members = group == np.argmax(np.where(together == largest, strength, -np.inf))

    if one_sided:
        z = np.maximum(z, 0.0) - LIMITS.positive_part
    counted = members[ordered[:, 1]]
    client = ordered[counted, 0]
    peers = np.bincount(client, minlength=clients)
    agreement = np.bincount(client, z[counted], minlength=clients) / np.maximum(peers, 1)
    typical = float(np.median(agreement[members]))
    both = members[ordered].all(axis=1)
    # Accounts that share one work agree beyond measure; what most pairs show is shown by two.
    power = _power(moved, members, parameters)
    usual = float(np.median(z[both]))
    if not most_of(members, ~barred):
        # Picked for agreeing, they agree more than is usual: what exceeds the pick is theirs.
        usual -= threshold
    deviation = _deviation(peers, max(float(z[both].mean()), 0.0) / sqrt(parameters))
    told = members & (power > 0)
    lowest = np.quantile(agreement[told] / power[told], 0.25) if told.any() else 0.0
    # Who agrees with whom is no yardstick where most agree with others, be it ever so little.
    elsewhere = 2 * largest <= np.count_nonzero(together[group] > 1)
    if elsewhere or _agree_too(ordered, z, members, barred, alike):
        lowest = 0.0
    least = LIMITS.least_share * max(min(usual, lowest), 0.0) * power
    missed = ~members & (power > 0)
    outside = missed & (agreement < _too_little(least, deviation, int(members.sum())))
    alone = together[group] == 1
    flags = tuple(
        Flag(Kind.INDEPENDENT if single else Kind.CLIQUE) if out else None
        for out, single in zip(outside, alone, strict=True)
    )
    return Cohort(members, agreement, typical, least, deviation, flags)


def most_of(some: Booleans, present: Booleans) -> bool:
    """Return whether `some` are more than half of those `present`, (k,) each."""
    return bool(2 * np.count_nonzero(some) > np.count_nonzero(present | some))


def _power(moved: NDArray[np.int64] | None, members: Booleans, parameters: int) -> Floats:
    """Return how much of the members' z clients can show that moved so many parameters, (k,).

    Few of many show nothing: they lie together, as rows of a table do, and meet by accident.
    """
    if moved is None:
        return np.ones(len(members))
    few = (moved < LIMITS.fewest_moved) & (2 * moved < parameters)
    share = np.sqrt(np.minimum(moved / max(float(np.median(moved[members])), 1.0), 1.0))
    return np.where(few, 0.0, share)


def _agree_too(
    ordered: NDArray[np.int64],
    z: Floats,
    members: Booleans,
    barred: Booleans,
    alike: Alike | None,
) -> bool:
    """Return whether those beside the `members` are more than these, and agree with each other.

    No two of them need to, but the median of them must, more than it would in one of a hundred
    rounds of independent clients: by z, which sees any association, or by the cosines of their
    reports, which see much less work, but only of clients that want the same.
    """
    beside = ~members & ~barred
    pairs = beside[ordered].all(axis=1)
    if beside.sum() <= members.sum() or not pairs.any():
        return False
    client = ordered[pairs, 0]
    peers = np.bincount(client)
    there = peers > 0
    if _significant(np.bincount(client, z[pairs])[there] / np.sqrt(peers[there])):
        return True
    if alike is None:
        return False
    rows = np.flatnonzero(beside)
    few = rows[:: -(-len(rows) // _LOOKED_AT)]
    cosine = alike(few)
    np.fill_diagonal(cosine, 0.0)
    # Nobody knows how far these spread by chance: each client by the length of its own.
    lengths = np.maximum(np.sqrt((cosine**2).sum(axis=1)), _TINY)
    return _significant(cosine.sum(axis=1) / lengths)


def _significant(sums: Floats) -> bool:
    """Return whether the median client agrees with its peers, by a sum over these for each.

    Sums of independent clients are standard normals, any two of which share one value of so many.
    A few that agree beyond measure do not move the median.
    """
    limit = upper_quantile(LIMITS.family_error) * sqrt((pi / 2 + 1) / len(sums))
    return float(np.median(sums)) > limit


def _deviation(peers: NDArray[np.int64], alike: float) -> Floats:
    """Return the standard deviation of the mean z with so many peers, under independence.

    Each z has a standard deviation of 1. Two of them are correlated as the signs of the two peers
    are, which is their z divided by the root of the number of parameters.
    """
    inverse = 1 / np.maximum(peers, 1)
    return np.sqrt(inverse + (1 - inverse) * min(alike, 1.0))


def _too_little(least: Floats, deviation: Floats, members: int) -> Floats:
    """Return the agreement that hardly anybody stays below who shows the `least` on average.

    Agreement that is significant by itself is not too little, however much the others agree: who
    drowns its work in noise has worked.
    """
    if members < LIMITS.fewest_members:
        return np.full(len(deviation), -np.inf)
    slack = upper_quantile(LIMITS.accusing / len(deviation))
    return np.minimum(least - slack * deviation, LIMITS.significant * deviation)


def near_copies(cosine: Floats, members: Booleans, rate: float) -> Copies:
    """Group `members` whose private parts are nearly the same, but for an error of `rate`.

    They are compared with pairs of members: beside noise, honest clients look alike.
    """
    alike = alike_pairs(cosine, members, rate)
    group = _connected(len(cosine), np.argwhere(alike))
    sizes = np.bincount(group, minlength=len(cosine))[group]
    first = np.argmax(alike, axis=1)
    return Copies(alike, group_size=sizes, twin=np.where(alike.any(axis=1), first, -1))


def alike_pairs(cosine: Floats, counted: Booleans, rate: float) -> Booleans:
    """Return who of the `counted`, (k,), is nearly a copy of whom, (k, k); nobody of itself.

    Clients with much data of one kind move alike, so that being alike is not enough: a pair must
    differ less than pairs of this round do, below a prediction interval of the logarithms.
    """
    clients = int(counted.sum())
    alike: Booleans = (cosine > LIMITS.copy_cosine) & np.logical_and.outer(counted, counted)
    np.fill_diagonal(alike, False)
    if not alike.any() or clients <= LIMITS.fewest_members:
        return np.zeros_like(alike)
    pairs = np.triu(np.logical_and.outer(counted, counted), 1)
    logs = np.log(np.maximum(1.0 - cosine, LIMITS.rounding))
    centre, spread = middle_and_spread(logs[pairs])
    limit = student_quantile(rate / int(pairs.sum()), clients - 1)
    return alike & (logs < centre - limit * spread)


def _connected(clients: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Label connected components by their smallest member."""
    label = np.arange(clients)
    while True:
        lowest = label.copy()
        np.minimum.at(lowest, edges[:, 0], label[edges[:, 1]])
        np.minimum.at(lowest, edges[:, 1], label[edges[:, 0]])
        lowest = lowest[lowest]  # a label's own label: paths are halved
        if (lowest == label).all():
            return label
        label = lowest


def ways_of(
    cosine: Floats,
    members: Booleans,
    present: Booleans,
    changed: Changes | None = None,
    one_kind: bool = False,
) -> Ways:
    """Return who points against the cohort, by cosines of updates and of their changes, (k, k).

    A client opposes the members that share a way if it points against them at least a third as much
    as they point together, and below a prediction interval of theirs, but for one round in a
    hundred over all clients. It is `against` them, and tells them nothing, if it also lies
    `LIMITS.apart` times as far from them as they lie from each other. Honest clients are, too, and
    some in every round: who alone holds a class, or has other names for labels, wants what the
    others do not.

    But the model moves for all alike, and descent on any data answers alike: what a step has gained
    is wanted less. So changes of honest reports from round to round point along with each other, or
    have nothing to do with each other. Those of reports that are turned round point against the
    others'. So a client is turned round if it opposes the members and its change does, by a third
    and farther below nothing than theirs are spread, but for one round in a hundred, as a whole and
    without what lies along its earlier report. Who points along with them, or changes along, at
    least a third as much as they do, is not turned round.

    A round tells that only if its changes are answers (`_answered`).

    Of data of `one_kind` nobody honest opposes the others: who does is turned round, or worse.

    Where fewer than seven share a way, or not most of those `present`, (k,), nobody can tell.
    """
    clients = len(members)
    against, way = np.zeros_like(members), np.zeros(clients, dtype=np.int8)
    nothing = Ways(against, way, np.zeros(clients))
    fewest = LIMITS.fewest_usual - 1
    if members.sum() < fewest:
        return nothing
    shared = members & (with_most(cosine, members) > 0)
    if shared.sum() < fewest or not most_of(shared, present):
        return nothing
    means, together, spread = _with_each_other(cosine, shared)
    least = LIMITS.least_share * together
    below = spreads_below(int(shared.sum()), LIMITS.honest_event / clients)
    limit = min(-least, together - below * spread)
    turned = means < limit
    # Of two directions, the squared distance is 2 (1 - cosine).
    against = turned & (1 - means > LIMITS.apart * (1 - together))
    way[means > least] = 1
    # What is turned round lies about as far on the other side.
    power = np.full(clients, _chance_below(limit + together, spread))
    if one_kind:
        way[against] = -1
        # Wrong labels are no mirror: how often they would be seen nobody knows.
        return Ways(against, way, np.minimum(power, LIMITS.stake))
    if changed is None:
        return Ways(against, way, nothing.power)
    told = np.any(changed.turned, axis=1)
    yardstick = shared & told
    count = int(yardstick.sum())
    if count < fewest or not _answered(changed, yardstick):
        return Ways(against, way, nothing.power)
    for change in (changed.whole, changed.turned):
        means, together, spread = _with_each_other(change, yardstick)
        least = LIMITS.least_share * together
        below = max(spreads_below(count, LIMITS.honest_event) * spread, least)
        seen = _chance_below(together - below, spread)
        power = np.where(told, np.minimum(power, seen), 0.0)
        turned &= told & (means < -below)
        way[told & (means > max(least, 0.0))] = 1
    way[turned] = -1
    return Ways(against, way, power)


def _answered(changed: Changes, some: Booleans) -> bool:
    """Return whether what `some` report together answers what they reported together before.

    It must be the same question: their shared report may have turned by half of its length at most.
    Where another layer is trained, or another mask is drawn, it is not, and the change of who
    points against the others says no more than where it points. And what was gained must be wanted
    less: while gradients grow, as on the way from a saddle, everybody wants more of what it got,
    and who wants something else changes against the others.
    """
    now, across, before = (
        float(products[np.ix_(some, some)].sum())
        for products in (changed.now, changed.across, changed.before)
    )
    if now <= 0 or before <= 0:
        return False
    same = across > sqrt((1 - LIMITS.another**2) * now * before)
    return same and across < before


def _with_each_other(cosine: Floats, some: Booleans) -> tuple[Floats, float, float]:
    """Return each client's mean cosine with `some` others, (k,), the mean of theirs, its spread."""
    means: Floats = (cosine[:, some].sum(axis=1) - some) / (some.sum() - some)
    return means, float(np.mean(means[some])), float(np.std(means[some], ddof=1))


def _chance_below(limit: float, spread: float) -> float:
    """Return the chance that what is normal about 0, with so much spread, lies below a limit."""
    return erfc(-limit / max(spread, _TINY) / sqrt(2)) / 2


def with_most(cosine: Floats, members: Booleans) -> Floats:
    """Return each client's median cosine with the members other than itself.

    From (..., k, k) to (..., k).
    """
    apart = np.where(np.eye(len(members), dtype=np.bool_), np.inf, cosine)
    ordered = np.sort(apart[..., members], axis=-1)
    client, others = np.arange(len(members)), members.sum() - members
    middles = ordered[..., client, (others - 1) // 2], ordered[..., client, others // 2]
    median: Floats = (middles[0] + middles[1]) / 2
    return np.where(others > 0, median, np.nan)


def lack_of_power(parameters: int, public: FloatArray | None) -> str:
    """Return why nobody can be judged by so many parameters, in words; empty where that is not so.

    What public information explains is found by regression, which fits anything by few parameters.
    """
    vectors = 0 if public is None else len(public)
    needed = LIMITS.parameters_per_vector * (vectors + 1)
    if parameters >= needed:
        return ""
    return (
        f"{parameters} parameters and {vectors} public vectors: at least {needed} parameters "
        "needed to judge"
    )


def abstained(
    method: str, clients: int, why: str, standing: Booleans | None = None
) -> Contributions:
    """Return a round that cannot be judged: all are equal, and nothing new is held against anybody.

    Who stands accused since earlier rounds (`standing`) stays out.
    """
    out = np.zeros(clients, dtype=np.bool_) if standing is None else standing
    undecided = Flag(Kind.UNDECIDED, why)
    return Contributions.of(
        method,
        np.where(out, 0.0, 1.0),
        flags=tuple(Flag(Kind.STANDING) if one else undecided for one in out),
        eligible=~out,
        work=np.zeros(clients),
    )


def explained_reports(
    shares: NDArray[np.float64], members: Booleans, least: float, rate: float
) -> Booleans:
    """Return whose report is public information, (k,).

    It leaves less unexplained than a report of the cohort's `members` would, below a prediction
    interval of the logarithms. Where hardly anything is left, which only training of simple models
    gives, the error is `rate` for each client, and without a cohort all others of whom more is left
    count. Where public information explains at least the share `least`, the error is
    `LIMITS.accusing` over all clients.
    """
    left = np.maximum(1.0 - shares, 0.0)
    nothing: Booleans = left <= LIMITS.nothing_left
    logs = np.log(np.maximum(left, LIMITS.nothing_left))
    known = np.zeros_like(nothing)
    for client in np.flatnonzero(shares >= least):
        other = ~nothing & (np.arange(len(shares)) != client)
        cohort = other & members
        if nothing[client]:
            others = cohort if cohort.sum() >= FEWEST else other
            known[client] = far_below(logs[client], logs[others], rate)
        elif cohort.sum() >= LIMITS.fewest_members:
            known[client] = far_below(logs[client], logs[cohort], LIMITS.accusing / len(shares))
    return known


def repeated_reports(
    shares: Floats, reports: NDArray[np.int64], members: Booleans, present: Booleans
) -> Booleans:
    """Return whose report is its own earlier work, and nothing else, (k,).

    Of the reports of members of whom at least as many `reports` are known, more is left, but for an
    error of `LIMITS.accusing` over all clients. A client whose training hardly changes from round
    to round repeats much of its work, and is honest: what is left of that counts less, and is not
    held against it. Where most members repeat nearly all of theirs, or members are not most of
    those `present`, (k,), nobody is accused for it.
    """
    repeated = np.zeros_like(members)
    if not most_of(members, present):
        return repeated
    rate = LIMITS.accusing / len(shares)
    own = shares < 1 - LIMITS.nothing_left
    for count in np.unique(reports[reports > 0]):
        rows = np.flatnonzero(reports >= count)
        if not most_of((own & members)[rows], members[rows]):
            continue
        found = explained_reports(shares[rows], members[rows], 1 - LIMITS.nothing_left, rate)
        repeated[rows] |= found & (reports[rows] == count)
    return repeated
