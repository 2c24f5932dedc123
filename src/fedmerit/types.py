"""The nouns of fedmerit: what goes into a round, what comes out, and who may take part.

Arrays inside these objects are read-only: a result that pays people does not change after the fact.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]
SignalArray = NDArray[np.uint8]
ScalarT = TypeVar("ScalarT", bound=np.generic)


def freeze(array: NDArray[ScalarT]) -> NDArray[ScalarT]:
    """Make `array` read-only and return it."""
    array.setflags(write=False)
    return array


@dataclass(frozen=True)
class Signals:
    """Quantised updates: what the agreement scores look at.

    Attributes
    ----------
    values : (k, d) uint8
        ``values[i, p]`` is the level that client i reports for parameter p, 0 to ``levels - 1``.
    levels : int
        Number of different levels a report may take (h in the paper), 2 to 256.
    """

    values: SignalArray
    levels: int


@dataclass(frozen=True)
class RoundInputs:
    """One round as a scorer sees it, already checked.

    Attributes
    ----------
    updates : (k, d) float array or Signals
        One row per client. Signals where clients upload levels instead of floats.
    public : (r, d) float array or None
        Vectors every client knows: the last global update, the current global model, ...
    layers : (d,) int64 array or None
        Which layer each parameter belongs to.
    previous : (k, d) float array or None
        Each client's own previous report; zeros for a client without one.
    trust : (k,) float array or None
        What each client has shown in earlier rounds (the sum of its `Contributions.work`).
    named : (k,) bool array or None
        Whom evidence over earlier rounds names as not working.
    """

    updates: FloatArray | Signals
    public: FloatArray | None = None
    layers: NDArray[np.int64] | None = None
    previous: FloatArray | None = None
    trust: NDArray[np.float64] | None = None
    named: NDArray[np.bool_] | None = None

    @property
    def clients(self) -> int:
        """Number of clients, k."""
        return int(self._matrix.shape[0])

    @property
    def parameters(self) -> int:
        """Number of parameters, d."""
        return int(self._matrix.shape[1])

    @property
    def _matrix(self) -> NDArray[np.generic]:
        return self.updates.values if isinstance(self.updates, Signals) else self.updates


@dataclass(frozen=True)
class Contributions:
    """What each client of a round contributed, and why we think so.

    Attributes
    ----------
    method : str
        Name of the scorer.
    scores : (k,) float
        One score per client: higher is more. Zero is what independent noise earns on average.
    pairwise : (k, k) float
        Row i: the score of client i with each peer; NaN where the two were not compared. Matrices
        of more than 4,096 clients, or of more than 256 who met few peers, are left out (all NaN).
    agreement, chance : (k, k) float
        The two parts of ``pairwise = agreement - chance``: how often the pair's signals count as
        agreeing on the same parameter, and how often they would on two different ones. NaN where
        the scorer has no such parts.
    z : (k, k) float
        ``pairwise`` in standard deviations of its null distribution; NaN where unknown.
    p_values : (k,) float
        Probability of a score this high for a client whose report is independent of its peers.
    flagged : (k,) bool
        True where the client is taken not to have worked, at the scorer's stated error rate.
    reasons : tuple of str
        Why a client is flagged, in words; empty where it is not.
    eligible : (k,) bool
        False where there is no evidence of work, so that the client gets no weight and no pay. A
        near-copy is flagged but eligible: it shares one score with its twin.
    epsilon : (k,) float
        Truthfulness certificate: no re-labelling of its own signals could have raised this
        client's score by more. NaN where the scorer has none.
    copies : (k,) int
        How many reports are nearly this one, itself included: they share one weight and one score.
    evidence : (k,) float
        How far the client agrees with the cohort given public information, relative to what is
        typical there, 0 to 1; 1 where the scorer does not measure it.
    explained : (k,) float
        Share of the report that public information explains, 0 to 1; NaN where not measured.
    work : (k,) float
        How far the client's private part agrees with its peers', size included; NaN where the
        scorer does not measure it. Its sum over rounds is the trust in a client.
    """

    method: str
    scores: NDArray[np.float64]
    pairwise: NDArray[np.float64]
    agreement: NDArray[np.float64]
    chance: NDArray[np.float64]
    z: NDArray[np.float64]
    p_values: NDArray[np.float64]
    flagged: NDArray[np.bool_]
    reasons: tuple[str, ...]
    eligible: NDArray[np.bool_]
    epsilon: NDArray[np.float64]
    copies: NDArray[np.int64]
    evidence: NDArray[np.float64]
    explained: NDArray[np.float64]
    work: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        method: str,
        scores: NDArray[np.float64],
        *,
        pairwise: NDArray[np.float64] | None = None,
        agreement: NDArray[np.float64] | None = None,
        chance: NDArray[np.float64] | None = None,
        z: NDArray[np.float64] | None = None,
        p_values: NDArray[np.float64] | None = None,
        flagged: NDArray[np.bool_] | None = None,
        reasons: tuple[str, ...] | None = None,
        eligible: NDArray[np.bool_] | None = None,
        epsilon: NDArray[np.float64] | None = None,
        copies: NDArray[np.int64] | None = None,
        evidence: NDArray[np.float64] | None = None,
        explained: NDArray[np.float64] | None = None,
        work: NDArray[np.float64] | None = None,
    ) -> "Contributions":
        """Fill what a scorer does not provide with NaN (no flag, no reason); freeze all of it."""
        k = len(scores)

        def filled(
            array: NDArray[np.float64] | None, shape: tuple[int, ...]
        ) -> NDArray[np.float64]:
            # What is absent takes no memory: one NaN seen from everywhere.
            return np.broadcast_to(np.nan, shape) if array is None else freeze(array)

        return cls(
            method=method,
            scores=filled(scores, (k,)),
            pairwise=filled(pairwise, (k, k)),
            agreement=filled(agreement, (k, k)),
            chance=filled(chance, (k, k)),
            z=filled(z, (k, k)),
            p_values=filled(p_values, (k,)),
            flagged=freeze(np.zeros(k, dtype=np.bool_) if flagged is None else flagged),
            reasons=("",) * k if reasons is None else reasons,
            eligible=freeze(np.ones(k, dtype=np.bool_) if eligible is None else eligible),
            epsilon=filled(epsilon, (k,)),
            copies=freeze(np.ones(k, dtype=np.int64) if copies is None else copies),
            evidence=freeze(np.ones(k) if evidence is None else evidence),
            explained=filled(explained, (k,)),
            work=filled(work, (k,)),
        )

    def reasons_for(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the reasons with the clients' names in place of their row numbers."""

        def named(found: re.Match[str]) -> str:
            return f"client {names[int(found[1])]}"

        return tuple(re.sub(r"\bclient (\d+)$", named, reason) for reason in self.reasons)

    def explain(self, client: int) -> str:
        """Say in one or two sentences where the score of `client` comes from."""
        row = self.pairwise[client]
        peers = np.flatnonzero(~np.isnan(row))
        text = f"client {client}: score {self.scores[client]:z.4f}"
        if peers.size:
            best, worst = peers[np.argmax(row[peers])], peers[np.argmin(row[peers])]
            text += (
                f" over {peers.size} peers (best {row[best]:z.4f} with client {best}, "
                f"worst {row[worst]:z.4f} with client {worst})"
            )
            if not np.isnan(self.agreement[client, peers]).any():
                text += (
                    f". Signals agree on {self.agreement[client, peers].mean():.1%} of the "
                    f"parameters, where chance would give {self.chance[client, peers].mean():.1%}"
                )
        if self.flagged[client]:
            text += f". Flagged: {self.reasons[client]}"
        return text


@dataclass(frozen=True)
class ClientRecord:
    """One client in one round, as it goes into records, ledgers and reports.

    `reward` is in the smallest unit of money. `behaviour` is what the client really did: known in a
    simulation only, never to a scorer.
    """

    client: str
    score: float
    weight: float
    p_value: float | None = None
    epsilon: float | None = None
    flagged: bool = False
    reason: str = ""
    reward: int | None = None
    num_examples: int | None = None
    behaviour: str | None = None


@dataclass(frozen=True)
class Rejection:
    """A reply that was not used, and the reason."""

    client: str
    reason: str


@dataclass(frozen=True)
class RoundRecord:
    """Everything worth keeping of one round; engines hand it to a callable.

    `metrics` (accuracy, loss, ...) are reproducible from the seed; `seconds` (how long each phase
    took) are not and stay out of anything that is compared or hashed. `agreement` says who agrees
    with whom, packed by :mod:`fedmerit.agreement_map`; empty where nobody was compared.
    """

    round: int
    clients: tuple[ClientRecord, ...]
    rejected: tuple[Rejection, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    agreement: bytes = b""


@runtime_checkable
class Quantiser(Protocol):
    """Turns float updates into signals."""

    @property
    def signal_levels(self) -> int:
        """How many levels the signals have."""
        ...

    def quantise(self, updates: FloatArray, rng: np.random.Generator) -> Signals:
        """Quantise checked (k, d) updates."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Scores the clients of one round."""

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs."""
        ...
