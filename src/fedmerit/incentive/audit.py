"""Best-response audit: search for a lie that earns more than the truth.

`audit_signals` searches under the exact score, where a certificate bounds what re-labelling can
gain; `audit_updates` tries lies about float updates on any scorer, with no bound to hold against.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import UpdatesError
from fedmerit.incentive.lies import (
    Candidate,
    Report,
    account_lies,
    signal_lies,
    update_lies,
)
from fedmerit.incentive.search import Rows, best_map
from fedmerit.incentive.truthfulness import (
    certificate,
    joint_counts,
    scores,
    theorem_epsilon,
)
from fedmerit.rng import RandomSource, as_generator
from fedmerit.types import FloatArray, Signals
from fedmerit.validation import check_count, check_matrix, check_signals

# From updates, (k, d), and own earlier reports, (k, n, d) or None, to scores, (k,).
ScoreUpdates = Callable[[FloatArray, FloatArray | None], NDArray[np.float64]]


@dataclass(frozen=True)
class AuditSettings:
    """How hard to search.

    Attributes
    ----------
    draws : int
        How often a lie that draws is drawn; its gain is the mean.
    random_maps, climbs : int
        Random re-labellings tried, and hill climbs started, where not all can be tried.
    delta : float
        Failure probability in Theorem 1.
    """

    draws: int = 8
    random_maps: int = 200
    climbs: int = 4
    delta: float = 0.05

    def __post_init__(self) -> None:
        check_count("draws", self.draws, least=1)
        check_count("random_maps", self.random_maps, least=1)
        check_count("climbs", self.climbs, least=1)
        theorem_epsilon(2, 1, self.delta)


@dataclass(frozen=True)
class Lie:
    """One lie and what it earned.

    `covered` says whether the certificate bounds it: it does for re-labellings. Gains of lies that
    draw are means with their standard error, of lies that do not draw exact (error 0).
    """

    kind: str
    description: str
    score: float
    gain: float
    standard_error: float
    covered: bool


@dataclass(frozen=True)
class ClientAudit:
    """What was found for one client; `epsilon` is NaN where there is no certificate."""

    client: int
    truth: float
    epsilon: float
    lies: tuple[Lie, ...]

    @property
    def best(self) -> Lie:
        """The lie that gains most."""
        return max(self.lies, key=lambda lie: lie.gain)

    @property
    def holds(self) -> bool:
        """Whether no covered lie gains more than the certificate allows."""
        slack = 1e-12  # scores are sums of a few hundred rounded terms
        return all(lie.gain <= self.epsilon + slack for lie in self.lies if lie.covered)


@dataclass(frozen=True)
class Audit:
    """The audit of a round.

    `theorem_epsilon` is what Theorem 1 promises for the same number of levels and parameters.
    """

    levels: int
    parameters: int
    theorem_epsilon: float
    clients: tuple[ClientAudit, ...]

    @property
    def best(self) -> ClientAudit:
        """The client that could gain most."""
        return max(self.clients, key=lambda client: client.best.gain)


def audit_signals(
    signals: Signals,
    *,
    public: Signals | None = None,
    strata: NDArray[np.integer] | None = None,
    clients: Sequence[int] | None = None,
    settings: AuditSettings | None = None,
    rng: RandomSource = None,
) -> Audit:
    """Search for the best lie of each client under the exact score.

    Parameters
    ----------
    signals : Signals, (k, d)
        What the clients of a round would report truthfully.
    public : Signals, (r, d), optional
        Signals of vectors that every client knows, with the same levels.
    strata : (d,) int, optional
        Score within these public classes (conditional score); re-labellings may differ by class.
    clients : sequence of int, optional
        Whom to audit; default everybody.
    """
    settings = settings or AuditSettings()
    generator = as_generator(rng)
    signals = check_signals(signals, min_clients=2, min_parameters=2)
    count, parameters = signals.values.shape
    known = None if public is None else _check_public(public, signals)
    classes = None if strata is None else _check_strata(strata, parameters)
    audited_clients = _check_clients(clients, count)
    halves = generator.permutation(parameters) % 2

    def audit(client: int) -> ClientAudit:
        own = signals.values[client]
        peers = np.delete(signals.values, client, axis=0)
        counts = joint_counts(own, peers, halves, signals.levels, classes)
        truth, epsilon = float(np.mean(scores(counts))), certificate(counts)

        def judge(report: Report) -> float:
            levels = report.astype(np.int64)
            drawn = joint_counts(levels, peers, halves, signals.levels, classes)
            return float(np.mean(scores(drawn)))

        lies = [_relabelling(counts, truth, settings, generator)]
        if known is not None:
            lies += [
                _relabelling_by_public(own, row, index, peers, halves, truth, generator)
                for index, row in enumerate(known)
                if classes is None
            ]
        lies += _try(signal_lies(own, signals.levels, known), judge, truth, settings, generator)
        return ClientAudit(client, truth, epsilon, tuple(lies))

    audited = tuple(audit(client) for client in audited_clients)
    bound = theorem_epsilon(signals.levels, parameters, settings.delta)
    return Audit(signals.levels, parameters, bound, audited)


def audit_updates(
    updates: FloatArray,
    score: ScoreUpdates,
    *,
    public: FloatArray | None = None,
    previous: FloatArray | None = None,
    clients: Sequence[int] | None = None,
    settings: AuditSettings | None = None,
    rng: RandomSource = None,
) -> tuple[ClientAudit, ...]:
    """Try lies about float updates on any scorer; there is no certificate, so `epsilon` is NaN.

    Lies of the kind "peer" use other clients' reports, which none should see: they show what
    collusion or a leak would be worth. Of "accounts" the score is what all of them get together;
    they have the same past.

    `score` maps (k, d) updates and (k, n, d) earlier reports, `previous` or None, to k scores. Let
    it use the same random numbers in every call, or the noise of the scorer drowns the gain.
    """
    settings = settings or AuditSettings()
    generator = as_generator(rng)
    matrix = check_matrix(updates, min_clients=2)
    truth = score(matrix, previous)
    found = []
    for client in _check_clients(clients, len(matrix)):

        def judge(report: Report, client: int = client) -> float:
            reported = matrix.copy()
            reported[client] = report
            return float(score(reported, previous)[client])

        def judge_all(reports: Report, client: int = client) -> float:
            rows = [*(c for c in range(len(matrix)) if c != client), *[client] * len(reports)]
            reported = matrix[rows]
            reported[-len(reports) :] = reports
            past = None if previous is None else previous[rows]
            return float(score(reported, past)[-len(reports) :].sum())

        own, honest = matrix[client], float(truth[client])
        past = None if previous is None else previous[client]
        candidates = update_lies(own, public, np.delete(matrix, client, axis=0), past)
        lies = _try(candidates, judge, honest, settings, generator)
        lies += _try(account_lies(own), judge_all, honest, settings, generator)
        found.append(ClientAudit(client, float(truth[client]), float("nan"), tuple(lies)))
    return tuple(found)


def _check_public(public: Signals, signals: Signals) -> NDArray[np.uint8]:
    checked = check_signals(public)
    expected = (signals.levels, signals.values.shape[1])
    found = (checked.levels, checked.values.shape[1])
    if found != expected:
        raise UpdatesError(
            f"public must have the signals' levels and parameters, {expected}, got {found}"
        )
    return checked.values


def _check_strata(strata: NDArray[np.integer], parameters: int) -> NDArray[np.integer]:
    classes = np.asarray(strata)
    if classes.dtype.kind not in "iu" or classes.shape != (parameters,) or classes.min() < 0:
        raise UpdatesError(
            f"strata must be {parameters} integers that are not negative, "
            f"got {classes.dtype} of shape {classes.shape}"
        )
    return classes


def _check_clients(clients: Sequence[int] | None, count: int) -> Sequence[int]:
    if clients is None:
        return range(count)
    return [check_count("client", client, least=0, most=count - 1) for client in clients]


def _relabelling(
    counts: NDArray[np.int64], truth: float, settings: AuditSettings, rng: np.random.Generator
) -> Lie:
    """Return the best re-labelling, stratum by stratum: the score adds up over strata."""
    levels = counts.shape[-1]
    total, exhaustive, merged = 0.0, True, 0
    for rows in Rows.of(counts):
        mapping, score, complete = best_map(
            rows, levels, rng, random_maps=settings.random_maps, climbs=settings.climbs
        )
        total += score
        exhaustive &= complete
        merged += levels - len(np.unique(mapping))
    how = "best of all" if exhaustive else "best found"
    return Lie(
        "merging", f"{how} re-labellings, {merged} levels merged", total, total - truth, 0.0, True
    )


def _relabelling_by_public(
    own: NDArray[np.integer],
    public: NDArray[np.integer],
    index: int,
    peers: NDArray[np.integer],
    halves: NDArray[np.integer],
    truth: float,
    rng: np.random.Generator,
) -> Lie:
    """Return the best re-labelling that may also look at a public vector.

    Each combination of own and public level is a row of its own; the plain certificate does not
    bound what such a lie gains, the conditional one does.
    """
    levels = int(max(own.max(), public.max(), peers.max())) + 1
    fine = own.astype(np.int64) + levels * public.astype(np.int64)
    used, fine = np.unique(fine, return_inverse=True)
    counts = np.zeros((len(peers), 1, 2, len(used), levels), dtype=np.int64)
    for peer, row in enumerate(peers):
        np.add.at(counts[peer, 0], (halves, fine, row), 1)
    (rows,) = Rows.of(counts)
    mapping = rows.climb(used % levels, levels, rng)
    score = float(rows.score(mapping[None], levels)[0])
    text = f"re-labelling by own level and public vector {index}"
    return Lie("public", text, score, score - truth, 0.0, False)


def _try(
    candidates: Iterable[Candidate],
    judge: Callable[[Report], float],
    truth: float,
    settings: AuditSettings,
    rng: np.random.Generator,
) -> list[Lie]:
    found = []
    for lie in candidates:
        draws = settings.draws if lie.random else 1
        values = np.array([judge(lie.draw(rng)) for _ in range(draws)])
        error = float(np.std(values, ddof=1) / np.sqrt(draws)) if draws > 1 else 0.0
        mean = float(values.mean())
        covered = lie.kind == "permutation"
        found.append(Lie(lie.kind, lie.description, mean, mean - truth, error, covered))
    return found
