"""One round, whatever engine runs it: screen, score, weigh and pay; and, apart from it, combine.

Engines differ in where updates come from and where the new model goes; everything in between is
here. Same updates, history and random stream in, same bits out.
"""

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedmerit.aggregators.rules import combined, mean_of
from fedmerit.aggregators.touched import mean_over_touching
from fedmerit.aggregators.weighting import gated_weights
from fedmerit.aggregators.weighting import weights as score_weights
from fedmerit.display.tables import Table, Tabular
from fedmerit.errors import InvalidInputError
from fedmerit.evidence.length import growth_of, kept_share
from fedmerit.evidence.limits import LIMITS
from fedmerit.flags import Flag, Kind
from fedmerit.incentive.rewards import pay_round
from fedmerit.records.agreement_map import pack_agreement
from fedmerit.rng import stream
from fedmerit.server.history import RoundHistory
from fedmerit.server.layout import Layout
from fedmerit.server.replies import Replies, norm
from fedmerit.server.rules import RoundRules
from fedmerit.types import ClientRecord, Contributions, FloatArray, Rejection, RoundRecord
from fedmerit.validation import MIN_CLIENTS, check_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Why nobody can be compared.
FEWEST = f"scores need {MIN_CLIENTS} usable replies, got {{}}"
_LARGEST = 2**63  # whole numbers in records are below
NO_SIZES = (
    'weighting "size" needs the data sizes of clients, got none: give sizes=..., or choose '
    'weighting "engine", which weighs all the same without sizes'
)


@dataclass(frozen=True)
class Judgement:
    """What a round comes to, before anything is combined.

    Attributes
    ----------
    replies : Replies
        Those that were scored; none where the round was skipped.
    weights : (k,) float
        What each of them weighs.
    keep : (k,) float
        The share of each update that is kept; 1 where it is not too long.
    clients : tuple of ClientRecord
    rejected : tuple of Rejection
    history : RoundHistory
        What is remembered after it.
    contributions : Contributions or None
        None where nobody was scored.
    sizes_count : bool
        Whether weights follow claimed data sizes, where the weighting looks at them.
    """

    replies: Replies
    weights: NDArray[np.float64]
    keep: NDArray[np.float64]
    clients: tuple[ClientRecord, ...]
    rejected: tuple[Rejection, ...]
    history: RoundHistory
    contributions: Contributions | None = None
    sizes_count: bool = True

    @property
    def skipped(self) -> bool:
        """Whether nobody has weight: the global model stays."""
        return not self.weights.any()

    @property
    def agreement(self) -> bytes:
        """Who agrees with whom, packed for the record; empty where nobody was compared."""
        pairs = None if self.contributions is None else self.contributions.pairs
        return b"" if pairs is None else pack_agreement(pairs.score)

    @property
    def start(self) -> FloatArray:
        """The model that the clients started from."""
        assert self.history.model is not None, "a round begins with a model"
        return self.history.model


@dataclass(frozen=True)
class Result(Tabular):
    """What a round came to, by client.

    Attributes
    ----------
    round : int
    scores, weights : mapping of client to float
    flags : mapping of client to Flag or None
        What speaks against a report, or why it has no weight or no pay; also of replies that were
        not used.
    payments : mapping of client to int
        In the smallest unit; empty without a reward rule.
    rejected : mapping of client to str
        Replies that were not used, and why.
    contributions : Contributions or None
        What the scorer said; its rows are the clients in the order of `scores`.
    """

    round: int
    scores: Mapping[str, float]
    weights: Mapping[str, float]
    flags: Mapping[str, Flag | None]
    payments: Mapping[str, int]
    rejected: Mapping[str, str]
    contributions: Contributions | None = None

    @classmethod
    def of(cls, record: RoundRecord, contributions: Contributions | None) -> "Result":
        """Sort a record by client."""
        used = [client for client in record.clients if not np.isnan(client.weight)]
        return cls(
            record.round,
            {client.client: client.score for client in used},
            {client.client: client.weight for client in used},
            {
                **{r.client: Flag(r.kind, r.reason) for r in record.rejected},
                **{client.client: client.flag for client in used},
            },
            {c.client: c.reward for c in record.clients if c.reward is not None},
            {refusal.client: refusal.reason for refusal in record.rejected},
            contributions,
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the scores as bars, best first; needs ``fedmerit[report]``."""
        from fedmerit.display.plots import plot_scores

        flags = [self.flags[client] for client in self.scores]
        return plot_scores(list(self.scores), list(self.scores.values()), flags, ax)

    def _table(self) -> Table:
        types = {"client": "string", "score": "float64", "weight": "float64", "paid": "int64"}
        types |= {"flagged": "bool_", "flag": "string", "rejected": "bool_"}
        rows = [
            {
                "client": client,
                "score": score,
                "weight": self.weights[client],
                "paid": self.payments.get(client),
                "flagged": flag is not None and flag.accuses,
                "flag": "" if flag is None else flag.words,
                "rejected": False,
            }
            for client, score in self.scores.items()
            for flag in [self.flags[client]]
        ]
        rows += [
            {"client": client, "paid": self.payments.get(client), "flagged": False, "flag": reason,
             "rejected": True}
            for client, reason in self.rejected.items()
        ]  # fmt: skip
        return Table(f"Round {self.round}", types, rows)


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `name`."""
        begin = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin


def scoring_stream(seed: int | None, number: int) -> np.random.Generator:
    """Return the random stream that scores round `number`.

    A server that pays should give no seed: fresh entropy is what clients cannot foresee.
    """
    if seed is None:
        return np.random.default_rng()
    return stream(seed, "round", number, "scoring")


def sampling_stream(seed: int | None) -> np.random.Generator:
    """Return the random stream that draws the parameters which a run looks at."""
    return np.random.default_rng() if seed is None else stream(seed, "sample")


def judge_round(
    rules: RoundRules,
    history: RoundHistory,
    replies: Replies,
    rng: np.random.Generator,
    *,
    rejected: Sequence[Rejection] = (),
    worked: Mapping[str, int] | None = None,
    harmful: Collection[str] = (),
    clock: Clock | None = None,
) -> Judgement:
    """Score, weigh and pay the replies of one round.

    Parameters
    ----------
    rules : RoundRules
    history : RoundHistory
        Its newest model is the one the clients started from.
    replies : Replies
        With the parameters that the history looks at.
    rng : Generator
        For the scorer.
    rejected : sequence of Rejection
        Replies that were turned away before; they are paid what the reward rule has for them.
    worked : mapping from client to int, optional
        In how many earlier rounds each client worked and was not flagged.
    harmful : collection of str
        Clients whose updates harm the model, as their peers found in earlier rounds: they are kept
        out of it.
    clock : Clock, optional
        Gets the seconds of scoring.

    Returns
    -------
    Judgement
        Where nobody can be scored, because a single reply came or the scorer refuses the round, the
        engine's own weights count as in FedAvg; other weightings skip the round.
    """
    clock = Clock() if clock is None else clock
    if history.model is None:
        raise InvalidInputError(
            "a history must have the model that clients started from, got none: see `published`"
        )
    replies, strangers = _known(rules, replies)
    replies, absurd, norms = _screen(replies, history.model)
    refused = (*rejected, *strangers, *absurd)
    clients = list(replies.clients)
    unscored = "" if len(clients) >= MIN_CLIENTS else FEWEST.format(len(clients))
    if not clients or (unscored and rules.weighting != "engine"):
        return skip_round(history, replies, refused, unscored)
    lengths = norms if replies.lengths is None else replies.lengths
    sizes = _counted_sizes(rules, replies, lengths)
    contributions = None
    if rules.scorer is not None and not unscored:
        with clock.phase("scoring"):
            needs = rules.needs
            levels = None if needs.floats else replies.signals
            seen = replies.updates if levels is None else levels
            # A claim speaks for a client where it weighs as much as it claims.
            claimed = sizes if rules.weighting in ("engine", "size") else None
            inputs = history.inputs(clients, seen, needs=needs, sizes=claimed)
            try:
                found = rules.scorer.score(inputs, rng)
                # A result that is handed on must not keep what is as large as the updates.
                contributions = replace(found, testimony=None)
            except InvalidInputError as error:
                if rules.weighting != "engine":
                    raise
                unscored = str(error)
            del inputs  # as large as the updates themselves
            if contributions is not None:
                history = history.remembering(clients, replies.updates, found, needs)
                del found
    out = np.array([client in harmful for client in clients], dtype=np.bool_)
    if contributions is not None and out.any():
        contributions = replace(contributions, eligible=contributions.eligible & ~out)
    weights = _without(_weights(rules, replies, sizes, contributions), out)
    keep = np.ones(len(clients))
    if rules.weighting == "engine" and contributions is not None and contributions.evidence:
        members = contributions.evidence.members

        def along(rows: NDArray[np.bool_]) -> NDArray[np.float64]:
            way = weights[rows].astype(replies.updates.dtype) @ replies.updates[rows]
            products = np.abs(replies.updates @ way).astype(np.float64)
            along_way: NDArray[np.float64] = products / max(norm(way), 1e-300)
            if not replies.part:
                return along_way
            # As much of the whole length as of the length of what is looked at.
            seen = np.array([norm(row) for row in replies.updates])
            along_way *= np.divide(lengths, seen, out=np.zeros_like(seen), where=seen > 0)
            return along_way

        keep = kept_share(lengths, sizes, weights, members, LIMITS.length_rate, along)
    rewards, unpaid = pay(rules, contributions, clients, replies.num_examples, refused, worked)
    why = Flag(Kind.UNDECIDED, unscored) if unscored and rules.scorer is not None else None
    vests = _vesting(rules, clients, worked or {})
    details = vests if not unpaid else dict.fromkeys(clients, unpaid)
    sized = rules.weighting == "size"
    records = _client_records(
        replies, weights, keep, contributions, rewards or {}, refused, details, out, why, sized
    )
    return Judgement(
        replies, weights, keep, records, refused, history, contributions, sizes is not None
    )


def _known(rules: RoundRules, replies: Replies) -> tuple[Replies, tuple[Rejection, ...]]:
    """Turn away clients that are not registered, where only registered ones may take part."""
    if rules.registered is None:
        return replies, ()
    allowed = set(rules.registered)
    known = [row for row, client in enumerate(replies.clients) if client in allowed]
    strangers = tuple(
        Rejection(client, "the client must be registered")
        for client in replies.clients
        if client not in allowed
    )
    return replies.only(known), strangers


def pay(
    rules: RoundRules,
    contributions: Contributions | None,
    clients: Sequence[str],
    sizes: Sequence[float | None],
    refused: Sequence[Rejection],
    worked: Mapping[str, int] | None,
) -> tuple[dict[str, int] | None, str]:
    """Return what a round pays, by client, or why it cannot be paid: that stops no training."""
    if rules.reward is None or contributions is None:
        return None, ""
    allowed = None if rules.registered is None else set(rules.registered)
    # Once each: a client may have sent several replies that were refused, or one that was not.
    outside = dict.fromkeys(
        refusal.client
        for refusal in refused
        if refusal.client not in clients and (allowed is None or refusal.client in allowed)
    )
    try:
        paid = pay_round(
            rules.reward,
            contributions,
            clients,
            list(outside),
            vesting=rules.vesting,
            worked=worked,
            sizes=sizes,
        )
    except InvalidInputError as error:
        return dict.fromkeys([*clients, *outside], 0), f"the round cannot be paid: {error}"
    return paid.by_client(), ""


def _vesting(
    rules: RoundRules, clients: Sequence[str], worked: Mapping[str, int]
) -> dict[str, str]:
    """Return words for those whose pay is not whole yet."""
    known = {client: worked.get(client, 0) for client in clients}
    return {
        client: f"pay vests over {rules.vesting} rounds of work, {rounds} so far"
        for client, rounds in known.items()
        if rounds < rules.vesting
    }


def skip_round(
    history: RoundHistory, replies: Replies, rejected: Sequence[Rejection], reason: str
) -> Judgement:
    """Return a round that nobody is judged in: every reply is refused with the reason."""
    words = f"{Kind.SKIPPED.words}: {reason}"
    alone = tuple(Rejection(client, words, Kind.SKIPPED) for client in replies.clients)
    nobody = np.empty(0)
    return Judgement(replies.only([]), nobody, nobody, (), (*rejected, *alone), history)


def combine_models(judged: Judgement, layout: Layout, clock: Clock | None = None) -> FloatArray:
    """Return the next model, (d,): FedAvg of the models that were sent.

    Where nobody is excluded or shortened it is FedAvg's to the last bit, which a sum of updates is
    not.
    """
    replies = judged.replies
    assert replies.models is not None, "clients sent models"
    used = [row for row in replies.in_order() if judged.weights[row] > 0]

    def model(row: int) -> FloatArray:
        assert replies.models is not None, "clients sent models"
        if judged.keep[row] < 1:
            kept = np.asarray(judged.keep[row], dtype=layout.dtype)
            return np.asarray(judged.start + replies.update(row) * kept)
        return replies.models(replies.clients[row])

    with (Clock() if clock is None else clock).phase("aggregation"):
        return layout.mean(map(model, used), judged.weights[used])


def combine_round(
    rules: RoundRules,
    judged: Judgement,
    *,
    touched: NDArray[np.int64] | None = None,
    clock: Clock | None = None,
) -> FloatArray:
    """Combine the updates of a judged round, in which somebody has weight.

    `touched`, (e,), is the embedding row of each of the first e parameters: rows are averaged over
    the clients that moved them, see `mean_over_touching`.
    """
    with (Clock() if clock is None else clock).phase("aggregation"):
        if judged.replies.part and rules.averages and touched is None:
            return _streamed(judged)
        replies = judged.replies
        updates = replies.matrix() if replies.part else replies.updates
        if (judged.keep < 1).any():
            updates = (updates * judged.keep[:, None]).astype(updates.dtype)
        weights = None if rules.weighting == "uniform" else _scaled(judged.weights)
        change = combined(updates, weights, rules.rule, rules.norm_bound)
        if touched is not None:
            change = mean_over_touching(change, updates, judged.weights, touched)
    return change


def _streamed(judged: Judgement) -> FloatArray:
    """Return the weighted mean of updates that are read one at a time, with the bits of `mean`."""

    def update(row: int) -> FloatArray:
        found = judged.replies.update(row)
        if judged.keep[row] < 1:
            found = (found * np.array(judged.keep[row])).astype(found.dtype)
        return found

    weights = _scaled(judged.weights)
    used = np.flatnonzero(weights).tolist()
    return mean_of(map(update, used), weights[used])


def _scaled(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights that sum to one, to the last bit those that `aggregate` makes of them."""
    shares = weights / weights.max()
    return np.asarray(shares / shares.sum())


def _screen(
    replies: Replies, model: FloatArray
) -> tuple[Replies, tuple[Rejection, ...], NDArray[np.float64]]:
    """Turn away updates whose length is absurd; return the lengths of the others as well.

    The yardstick is the lower median of the updates that are not zero, or the global model where
    that is longer: so a majority of tiny reports cannot turn away those who work.
    """
    norms = replies.norms
    if norms is None:
        norms = np.array([norm(row) for row in replies.updates])
    known = sorted(norm for norm in norms if norm > 0)
    limit = LIMITS.absurd_norm * max(known[(len(known) - 1) // 2] if known else 0.0, norm(model))
    usable = np.isfinite(norms) & (norms <= limit)
    if usable.all():
        return replies, (), norms
    absurd = tuple(
        Rejection(
            replies.clients[row],
            f"the update's norm must be at most {limit:.3g}, got {norms[row]:.3g}",
        )
        for row in np.flatnonzero(~usable).tolist()
    )
    return replies.only(np.flatnonzero(usable).tolist()), absurd, norms[usable]


def _weights(
    rules: RoundRules,
    replies: Replies,
    sizes: NDArray[np.float64] | None,
    contributions: Contributions | None,
) -> NDArray[np.float64]:
    clients = len(replies.clients)
    if rules.weighting == "score" and contributions is not None:
        return score_weights(contributions.scores, rules.alpha)
    if rules.weighting == "gated" and contributions is not None:
        return gated_weights(contributions, rules.alpha)
    if rules.weighting == "engine":
        return _engine_weights(sizes, contributions, replies)
    if rules.weighting == "size":
        if not any(replies.num_examples):
            raise InvalidInputError(NO_SIZES)
        return check_weights([size or 0 for size in replies.num_examples], clients)
    return np.full(clients, 1 / clients)


def _engine_weights(
    sizes: NDArray[np.float64] | None, contributions: Contributions | None, replies: Replies
) -> NDArray[np.float64]:
    """Return what FedAvg gives those who are not excluded, and nothing to the others."""
    shares = np.ones(len(replies.clients)) if sizes is None else sizes
    if contributions is not None:
        shares = np.where(excluded(contributions), 0.0, shares)
    # Added up as FedAvg does: a sum of fractions depends on the order.
    share_of = dict(zip(replies.clients, shares.tolist(), strict=True))
    total = sum(share_of.get(client, 0.0) for client in replies.arrived or replies.clients)
    return shares / total if total else shares


def _counted_sizes(
    rules: RoundRules, replies: Replies, norms: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the claimed data sizes, where all are known and count."""
    known = [size for size in replies.num_examples if size is not None]
    if rules.sizes == "ignore" or len(known) < len(replies.clients):
        return None
    sizes = np.array(known, dtype=np.float64)
    if rules.sizes == "audited":
        growth = growth_of(norms[norms > 0], sizes[norms > 0])
        if growth is not None and not growth.shown:
            return None
    return sizes


def _without(weights: NDArray[np.float64], out: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the weights with nothing for those who are out, and their share for the others."""
    if not out.any():
        return weights
    left = np.where(out, 0.0, weights)
    total = left.sum()
    return left / total if total > 0 else left


def excluded(contributions: Contributions) -> NDArray[np.bool_]:
    """Return who is kept out of the model: one work enters it once, through its first account."""

    def out(row: int, flag: Flag | None) -> bool:
        if flag is not None and flag.kind is Kind.COPY:
            return int(flag.twin) < row
        return flag is not None and flag.accuses

    return np.array([out(row, flag) for row, flag in enumerate(contributions.flags)])


def _client_records(
    replies: Replies,
    weights: NDArray[np.float64],
    keep: NDArray[np.float64],
    contributions: Contributions | None,
    rewards: Mapping[str, int],
    refused: Sequence[Rejection],
    unpaid: Mapping[str, str],
    harmful: NDArray[np.bool_],
    why: Flag | None,
    sized: bool,
) -> tuple[ClientRecord, ...]:
    """Put together what is known about each client of a round; NaN scores where none were made.

    Where nobody was scored, `why` says it of all. `unpaid` are words for clients that get nothing,
    and `sized` says whether weights are by size alone.

    A client whose reply was rejected is among them only if the reward rule pays it nevertheless.
    """
    if contributions is None:
        nothing = np.full(len(replies.clients), np.nan)
        contributions = Contributions.of("none", nothing, flags=(why,) * len(nothing))
    labels: Sequence[str | None] = replies.behaviours or [None] * len(replies.clients)

    def flag(row: int, reward: int | None) -> Flag | None:
        found = contributions.flags[row]
        if harmful[row] and not (found is not None and found.accuses):
            return Flag(Kind.HARMS)
        if sized and not replies.num_examples[row] and not (found is not None and found.accuses):
            return Flag(Kind.UNWEIGHED, "it claims no data size")
        if found is None and keep[row] < 1:
            return Flag(Kind.LONG, f"shortened to {keep[row]:.1%}")
        if found is None and weights[row] == 0:
            return Flag(Kind.UNWEIGHED)
        if found is None and reward == 0:
            return Flag(Kind.UNPAID, unpaid.get(replies.clients[row], ""))
        return None if found is None else found.with_names(replies.clients)

    used = tuple(
        ClientRecord(
            client=client,
            score=float(contributions.scores[row]),
            weight=float(weights[row]),
            p_value=_entry(contributions.p_values, row),
            epsilon=_entry(contributions.epsilon, row),
            flag=flag(row, rewards.get(client)),
            reward=rewards.get(client),
            num_examples=_whole(replies.num_examples[row]),
            behaviour=labels[row],
            label=replies.labels.get(client),
        )
        for row, client in enumerate(replies.clients)
    )
    refusals: dict[str, Rejection] = {}
    for refusal in refused:
        refusals.setdefault(refusal.client, refusal)
    return used + tuple(
        ClientRecord(
            client=client,
            score=math.nan,
            weight=math.nan,
            flag=Flag(refusal.kind, refusal.reason),
            reward=rewards[client],
            label=replies.labels.get(client),
        )
        for client, refusal in refusals.items()
        if client not in replies.clients and rewards.get(client)
    )


def _whole(size: float | None) -> int | None:
    """Return a claimed size as it is recorded; a fraction counts, but has no place there."""
    return int(size) if size is not None and size < _LARGEST and size == int(size) else None


def _entry(column: NDArray[np.float64] | None, row: int) -> float | None:
    return None if column is None or np.isnan(column[row]) else float(column[row])
