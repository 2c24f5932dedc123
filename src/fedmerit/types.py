"""The nouns of fedmerit: what goes into a round, what comes out, and who may take part.

Arrays inside these objects are read-only: a result that pays people does not change after the fact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedmerit.display.tables import Table, Tabular
from fedmerit.errors import Fault
from fedmerit.flags import Flag, Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.floating]
SignalArray = NDArray[np.uint8]
# Public vectors of a round: all pairs of them are compared, for every layer.
MAX_PUBLIC = 256
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
    previous : (k, n, d) float array or None
        Each client's own earlier reports; zeros in place of reports that there are not.
    testimony : (k, d) float array or None
        What each client has told before, the `Contributions.testimony` of its last round; zeros for
        a newcomer.
    trust : (k,) float array or None
        What each client has shown in earlier rounds (the sum of its `Contributions.work`).
    rounds : (k,) int array or None
        In how many earlier rounds each client was judged.
    named : (k,) bool array or None
        Whom evidence over earlier rounds names as not working.
    standing : (k,) bool array or None
        Who was accused in earlier rounds, and has not worked in more rounds than that.
    agrees : (k,) bool array or None
        Who agreed with the others significantly in its last rounds, taken together.
    repeated : (k,) float array or None
        Which share of each report what is public and the client's own past explain, of which more
        is looked at than `previous`; 0 without a past.
    reports : (k,) int array or None
        How many own earlier reports that rests on.
    sizes : (k,) float array or None
        How many examples each client claims to hold, where it weighs as many; infinite where claims
        do not count. Who has few has few ways to go.
    sampled : bool
        The parameters are a sample already, and their values are checked: all of them count.
    clients, parameters : int
        How many there are: k and d.
    """

    updates: FloatArray | Signals
    public: FloatArray | None = None
    layers: NDArray[np.int64] | None = None
    previous: FloatArray | None = None
    testimony: FloatArray | None = None
    trust: NDArray[np.float64] | None = None
    rounds: NDArray[np.int64] | None = None
    named: NDArray[np.bool_] | None = None
    standing: NDArray[np.bool_] | None = None
    agrees: NDArray[np.bool_] | None = None
    repeated: NDArray[np.float64] | None = None
    reports: NDArray[np.int64] | None = None
    sizes: NDArray[np.float64] | None = None
    sampled: bool = False
    clients: int = field(init=False)
    parameters: int = field(init=False)

    def __post_init__(self) -> None:
        matrix = self.updates.values if isinstance(self.updates, Signals) else self.updates
        object.__setattr__(self, "clients", int(matrix.shape[0]))
        object.__setattr__(self, "parameters", int(matrix.shape[1]))

    def of_clients(self, rows: NDArray[np.int64]) -> "RoundInputs":
        """Return the round of some of its clients."""
        updates = self.updates
        part = (
            Signals(updates.values[rows], updates.levels)
            if isinstance(updates, Signals)
            else updates[rows]
        )
        columns = {name: getattr(self, name) for name in _BY_CLIENT}
        chosen: dict[str, Any] = {n: None if c is None else c[rows] for n, c in columns.items()}
        return replace(self, updates=part, **chosen)


_BY_CLIENT = (
    *("previous", "testimony", "trust", "rounds", "named"),
    *("standing", "agrees", "repeated", "reports", "sizes"),
)


@dataclass(frozen=True)
class Needs:
    """What a scorer asks of whoever calls it, beside updates, public vectors and layers.

    Attributes
    ----------
    floats : bool
        Float updates, also where clients upload levels.
    previous : bool
        Each client's own earlier reports, and its testimony.
    trust : bool
        What each client has shown in earlier rounds, the sum of its `Contributions.work`, in how
        many, and whether an accusation stands.
    naming : float
        Whom evidence over earlier rounds names, at this false discovery rate; 0: nobody.
    sample : int or None
        How many parameters the scorer looks at, where a model has more: a server then keeps and
        gives it no others. None: all.
    """

    floats: bool = False
    previous: bool = False
    trust: bool = False
    naming: float = 0.0
    sample: int | None = None


@dataclass(frozen=True)
class Pairs:
    """Who was compared with whom, (k, k) each: row i is client i, NaN where two were not compared.

    Attributes
    ----------
    score : (k, k) float
        The score of client i with each peer.
    agreement, chance : (k, k) float or None
        The two parts of ``score = agreement - chance``: how often the pair's signals count as
        agreeing on the same parameter, and how often they would on two different ones.
    z : (k, k) float or None
        ``score``, or the agreement that decides, in standard deviations of its null distribution.
    """

    score: NDArray[np.float64]
    agreement: NDArray[np.float64] | None = None
    chance: NDArray[np.float64] | None = None
    z: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Evidence:
    """What speaks for the work of each client, (k,) each.

    Attributes
    ----------
    agreement : (k,) float
        Mean z of the client with the members of the cohort, given public information.
    typical : (k,) float
        The median of that over the members; 0 where there is no cohort.
    least : (k,) float
        The `agreement` that a client that works shows at least, on average.
    deviation : (k,) float
        Standard deviation of `agreement` for a client that is independent of all members.
    explained : (k,) float
        Share of the report that public information explains, 0 to 1.
    replayed : (k,) bool
        Whose report was known before, to the public or from the client itself: more of it than one
        in a hundred reports of clients that work, and what is left of it shows no work.
    copies : (k,) float
        How many accounts share the work of this one, itself included: they share one score. A pair
        that is alike in part counts in part.
    members : (k,) bool
        Who belongs to the cohort: those whose work the round itself shows.
    way : (k,) int
        -1 for who points against the cohort and answers the model against it, as one in a hundred
        clients that work might; 1 for who does either along with it; 0 where nobody can tell.
    power : (k,) float
        The chance that a report that is turned round would be seen as such in this round.
    """

    agreement: NDArray[np.float64]
    typical: NDArray[np.float64]
    least: NDArray[np.float64]
    deviation: NDArray[np.float64]
    explained: NDArray[np.float64]
    replayed: NDArray[np.bool_]
    copies: NDArray[np.float64]
    members: NDArray[np.bool_]
    way: NDArray[np.int8]
    power: NDArray[np.float64]

    @property
    def relative(self) -> NDArray[np.float64]:
        """Agreement relative to the typical, within [0, 1]; 1 for all where there is no cohort."""
        known = self.typical > 0
        share = np.divide(self.agreement, self.typical, out=np.ones(len(known)), where=known)
        return np.clip(share, 0.0, 1.0)


@dataclass(frozen=True)
class Contributions(Tabular):
    """What each client of a round contributed, and why we think so.

    What a scorer cannot tell is None.

    Attributes
    ----------
    method : str
        Name of the scorer.
    scores : (k,) float
        One score per client: higher is more. Zero is what independent noise earns on average.
    flags : tuple of Flag or None
        What speaks against each report; `flagged` says whose flag accuses.
    eligible : (k,) bool
        False where there is no evidence of work, so that the client gets no weight and no pay. A
        near-copy is flagged but eligible: it shares one score with its twin.
    p_values : (k,) float or None
        Probability of a score this high for a client whose report is independent of its peers.
    epsilon : (k,) float or None
        Truthfulness certificate: no re-labelling of its own signals could have raised this
        client's score by more.
    work : (k,) float or None
        What the round adds to the trust in each client.
    testimony : (k, d) float or None
        What each client has told by now, for a history to remember; a result that is handed on has
        none, since it is as large as the updates.
    pairs : Pairs or None
        Left out of rounds of more than 4,096 clients, or of more than 256 who met few peers.
    evidence : Evidence or None
    """

    method: str
    scores: NDArray[np.float64]
    flags: tuple[Flag | None, ...]
    eligible: NDArray[np.bool_]
    p_values: NDArray[np.float64] | None = None
    epsilon: NDArray[np.float64] | None = None
    work: NDArray[np.float64] | None = None
    testimony: FloatArray | None = None
    pairs: Pairs | None = None
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        for part in (self, self.pairs, self.evidence):
            for array in () if part is None else vars(part).values():
                if isinstance(array, np.ndarray):
                    freeze(array)

    @classmethod
    def of(
        cls,
        method: str,
        scores: NDArray[np.float64],
        *,
        flags: Sequence[Flag | None] | None = None,
        eligible: NDArray[np.bool_] | None = None,
        p_values: NDArray[np.float64] | None = None,
        epsilon: NDArray[np.float64] | None = None,
        work: NDArray[np.float64] | None = None,
        testimony: FloatArray | None = None,
        pairs: Pairs | None = None,
        evidence: Evidence | None = None,
    ) -> "Contributions":
        """Build a result; without flags nobody is flagged, and without `eligible` everybody is."""
        k = len(scores)
        return cls(
            method,
            scores,
            (None,) * k if flags is None else tuple(flags),
            np.ones(k, dtype=np.bool_) if eligible is None else eligible,
            p_values,
            epsilon,
            work,
            testimony,
            pairs,
            evidence,
        )

    @property
    def pairwise(self) -> NDArray[np.float64] | None:
        """Row i: the score of client i with each peer; NaN where the two were not compared."""
        return None if self.pairs is None else self.pairs.score

    @property
    def z(self) -> NDArray[np.float64] | None:
        """Agreement of every pair in standard deviations of its null distribution."""
        return None if self.pairs is None else self.pairs.z

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """Who is taken not to have done its own work, at the scorer's stated error rate, (k,)."""
        return np.array([flag is not None and flag.accuses for flag in self.flags], dtype=np.bool_)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The flags in words; empty where there is none."""
        return tuple("" if flag is None else flag.words for flag in self.flags)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the scores as bars, best first; needs ``fedmerit[report]``."""
        from fedmerit.display.plots import plot_scores

        names = [f"client {row}" for row in range(len(self.scores))]
        return plot_scores(names, self.scores.tolist(), self.flags, ax)

    def _table(self) -> Table:
        parts = {"p_value": self.p_values, "epsilon": self.epsilon}
        known = {name: values.tolist() for name, values in parts.items() if values is not None}
        rows = [
            {
                "client": row,
                "score": float(self.scores[row]),
                "flagged": flag is not None and flag.accuses,
                "flag": "" if flag is None else flag.words,
                **{name: values[row] for name, values in known.items()},
            }
            for row, flag in enumerate(self.flags)
        ]
        types = {"client": "int64", "score": "float64", **dict.fromkeys(known, "float64")}
        types |= {"flagged": "bool_", "flag": "string"}
        return Table(f"Contributions by {self.method}", types, rows)

    def explain(self, client: int) -> str:
        """Say in one or two sentences where the score of `client` comes from."""
        text = f"client {client}: score {self.scores[client]:z.4f}"
        if self.pairs is not None:
            row = self.pairs.score[client]
            peers = np.flatnonzero(~np.isnan(row))
            best, worst = peers[np.argmax(row[peers])], peers[np.argmin(row[peers])]
            text += (
                f" over {peers.size} peers (best {row[best]:z.4f} with client {best}, "
                f"worst {row[worst]:z.4f} with client {worst})"
            )
            if self.pairs.agreement is not None and self.pairs.chance is not None:
                text += (
                    f". Signals agree on {self.pairs.agreement[client, peers].mean():.1%} of the "
                    f"parameters, where chance would give "
                    f"{self.pairs.chance[client, peers].mean():.1%}"
                )
        flag = self.flags[client]
        if flag is not None:
            text += f". {'Flagged' if flag.accuses else 'Note'}: {flag.words}"
        return text


@dataclass(frozen=True)
class ClientRecord:
    """One client in one round, as it goes into records, ledgers and reports.

    Attributes
    ----------
    client : str
        The client's identity.
    score, weight : float
        NaN where there was none.
    p_value, epsilon : float or None
    flag : Flag or None
        What speaks against the report, or why it has no weight or no pay.
    reward : int or None
        In the smallest unit of money.
    num_examples : int or None
        The data size that the client claimed.
    behaviour : str or None
        What the client really did: known in a simulation only, never to a scorer.
    label : str or None
        How the client calls itself: for people, never its identity.
    value, value_error : float or None
        What its update added to the model as its peers judged it, in units of their metric, and the
        standard error of that.
    judgement : str or None
        SHA-256 of what it was asked and answered as a judge.
    """

    client: str
    score: float
    weight: float
    p_value: float | None = None
    epsilon: float | None = None
    flag: Flag | None = None
    reward: int | None = None
    num_examples: int | None = None
    behaviour: str | None = None
    label: str | None = None
    value: float | None = None
    value_error: float | None = None
    judgement: str | None = None

    @property
    def flagged(self) -> bool:
        """Whether the client is taken not to have done its own work."""
        return self.flag is not None and self.flag.accuses

    @property
    def reason(self) -> str:
        """The flag in words; empty where there is none."""
        return "" if self.flag is None else self.flag.words


@dataclass(frozen=True)
class Rejection:
    """A reply that was not used, and the reason in words.

    `fault` is the reason as a value, for who decides by it in the same round. It is not kept.
    """

    client: str
    reason: str
    kind: Kind = Kind.REFUSED
    fault: Fault | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class RoundRecord:
    """Everything worth keeping of one round; engines hand it to a callable.

    `metrics` (accuracy, loss, ...) are reproducible from the seed; `seconds` (how long each phase
    took) are not and stay out of anything that is compared or hashed. `agreement` says who agrees
    with whom, packed by :mod:`fedmerit.records.agreement_map`; empty where nobody was compared.
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
    """Scores the clients of one round.

    A scorer that asks for more than updates, public vectors and layers has an attribute `needs`, a
    `Needs`; one that wraps another hands on the other's, which `needs_of` tells of any scorer.
    """

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score checked inputs."""
        ...


def needs_of(scorer: Scorer | None) -> Needs:
    """Return what `scorer` asks for; nothing more than a round where it does not say."""
    found = getattr(scorer, "needs", Needs())
    return found if isinstance(found, Needs) else Needs()
