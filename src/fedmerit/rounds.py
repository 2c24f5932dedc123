"""One round, whatever engine runs it: screen, score, weigh, combine, pay, write down.

The simulator and the Flower strategies differ in where updates come from and where the new model
goes; everything in between is `settle_round`. Same updates, history and random stream in, same bits
out.
"""

import inspect
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedmerit.aggregators import AGGREGATORS, NORM_BOUND, aggregate
from fedmerit.aggregators.touched import mean_over_touching
from fedmerit.agreement_map import pack_agreement
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.incentive.paying import pay_round
from fedmerit.incentive.rewards import Payments, RewardRule
from fedmerit.rng import stream
from fedmerit.scorers import Merit, RoundHistory, gated_weights
from fedmerit.scorers import weights as score_weights
from fedmerit.scorers.history import OLDER_UPDATES, REMEMBERED_CLIENTS
from fedmerit.types import (
    ClientRecord,
    Contributions,
    FloatArray,
    Rejection,
    Scorer,
    Signals,
)
from fedmerit.validation import MIN_CLIENTS, check_number, check_round, check_weights

WEIGHTINGS = ("gated", "score", "size", "uniform")
# Longer than so many times the typical update and the global model is no update but an attack on
# the arithmetic. Shrinking handles what is merely long.
ABSURD_NORM = 1000.0


@dataclass(frozen=True)
class RoundRules:
    """How a round is scored, weighed, combined and paid.

    Attributes
    ----------
    scorer : Scorer or None
        None scores nobody (plain FedAvg needs no scores).
    weighting : str
        "gated": softmax of `alpha` times the score over clients with evidence of work, nothing for
        the others; "score": softmax over all (Fed-PCA); "size": by claimed data size (FedAvg);
        "uniform".
    rule : str
        How updates are combined, a name in `fedmerit.AGGREGATORS`.
    norm_bound : float or None
        Updates longer than so many median norms are shrunk before they are combined.
    reward : RewardRule or None
        How a round is paid. A round with fewer than two usable replies has no scores and pays
        nobody.
    """

    scorer: Scorer | None = field(default_factory=Merit)
    weighting: str = "gated"
    alpha: float = 10.0
    rule: str = "mean"
    norm_bound: float | None = NORM_BOUND
    reward: RewardRule | None = None

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, least=0)
        if self.weighting not in WEIGHTINGS:
            raise UnknownNameError.of("weighting", self.weighting, WEIGHTINGS)
        if self.weighting in ("gated", "score") and self.scorer is None:
            raise SettingError(f"weighting {self.weighting} needs a scorer, got None")
        if self.norm_bound is not None:
            check_number("norm_bound", self.norm_bound, above=0)
        if self.reward is not None and self.scorer is None:
            raise SettingError("a reward needs a scorer, got None")
        if self.rule not in AGGREGATORS:
            raise UnknownNameError.of("rule", self.rule, AGGREGATORS)
        takes_weights = "weights" in inspect.signature(AGGREGATORS[self.rule]).parameters
        if self.weighting != "uniform" and not takes_weights:
            raise SettingError(
                f"rule {self.rule} takes no weights and needs weighting uniform, "
                f"got {self.weighting}"
            )

    @property
    def remembers(self) -> bool:
        """Whether the scorer looks at clients' previous reports; only the merit score does."""
        return isinstance(self.scorer, Merit)

    def fresh_history(
        self, *, older: int = OLDER_UPDATES, remembered: int = REMEMBERED_CLIENTS
    ) -> RoundHistory:
        """Return the history before the first round, which keeps no more than the scorer uses."""
        if not isinstance(self.scorer, Merit):
            return RoundHistory(older=older, remembered=0)
        return RoundHistory(older=older, remembered=remembered, naming=self.scorer.naming)


@dataclass(frozen=True)
class Replies:
    """The usable replies of a round, one row each: checked in shape and dtype, and finite.

    Attributes
    ----------
    clients : sequence of str
        Different names.
    updates : (k, d) float array
        What is combined.
    num_examples : sequence of int or None
        Claimed data sizes; None where the weighting does not need them.
    signals : Signals or None
        What is scored, where clients uploaded levels instead of floats.
    behaviours : sequence of str, optional
        What the clients really did, where that is known.
    """

    clients: Sequence[str]
    updates: FloatArray
    num_examples: Sequence[int | None]
    signals: Signals | None = None
    behaviours: Sequence[str] | None = None

    def only(self, rows: Sequence[int]) -> "Replies":
        """Return the replies in `rows`, themselves if that is all of them."""
        if len(rows) == len(self.clients):
            return self
        return Replies(
            [self.clients[row] for row in rows],
            self.updates[list(rows)],
            [self.num_examples[row] for row in rows],
            self.signals and Signals(self.signals.values[list(rows)], self.signals.levels),
            self.behaviours and [self.behaviours[row] for row in rows],
        )

    def at(self, positions: NDArray[np.int64]) -> "Replies":
        """Return the replies with the parameters at `positions` only."""
        return replace(
            self,
            updates=np.ascontiguousarray(self.updates[:, positions]),
            signals=self.signals
            and Signals(
                np.ascontiguousarray(self.signals.values[:, positions]), self.signals.levels
            ),
        )


@dataclass(frozen=True)
class Settlement:
    """What a round comes to. `change` is None where it was skipped: the global model stays."""

    change: FloatArray | None
    clients: tuple[ClientRecord, ...]
    rejected: tuple[Rejection, ...]
    history: RoundHistory
    contributions: Contributions | None = None

    @property
    def agreement(self) -> bytes:
        """Who agrees with whom, packed for the record; empty where nobody was scored."""
        return b"" if self.contributions is None else pack_agreement(self.contributions.pairwise)


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


def layer_numbers(sizes: Mapping[str, int]) -> NDArray[np.int32]:
    """Return which layer each parameter belongs to, (d,): ``a.weight`` and ``a.bias`` share one."""
    owners = [name.rpartition(".")[0] or name for name in sizes]
    ids = {owner: number for number, owner in enumerate(dict.fromkeys(owners))}
    return np.repeat([ids[owner] for owner in owners], list(sizes.values())).astype(np.int32)


def settle_round(
    rules: RoundRules,
    history: RoundHistory,
    replies: Replies,
    rng: np.random.Generator,
    *,
    layers: NDArray[np.integer] | None = None,
    scored: NDArray[np.int64] | None = None,
    touched: NDArray[np.int64] | None = None,
    rejected: Sequence[Rejection] = (),
    clock: Clock | None = None,
) -> Settlement:
    """Score, weigh, combine and pay the replies of one round.

    Parameters
    ----------
    rules : RoundRules
    history : RoundHistory
        Its newest model is the one the clients started from.
    replies : Replies
    rng : Generator
        For the scorer.
    layers : (d,) integers, optional
        The layer of each parameter.
    scored : positions, optional
        The parameters that scores look at, where these are not all.
    touched : (e,) integers, optional
        The embedding row of each of the first e parameters: rows are averaged over the clients that
        moved them, see `mean_over_touching`.
    rejected : sequence of Rejection
        Replies that were turned away before; they are paid what the reward rule has for them.
    clock : Clock, optional
        Gets the seconds of scoring and aggregation.

    Returns
    -------
    Settlement
        With fewer than two usable replies the round is skipped.
    """
    clock = Clock() if clock is None else clock
    replies, absurd = _screen(replies, history.models[-1])
    refused = (*rejected, *absurd)
    clients = list(replies.clients)
    if len(clients) < MIN_CLIENTS:
        reason = f"round skipped: scores need {MIN_CLIENTS} usable replies, got {len(clients)}"
        alone = tuple(Rejection(client, reason) for client in clients)
        return Settlement(None, (), refused + alone, history)
    contributions = None
    if rules.scorer is not None:
        with clock.phase("scoring"):
            seen = replies if scored is None else replies.at(scored)
            known = history if scored is None else history.at(scored)
            layer = layers if layers is None or scored is None else layers[scored]
            inputs = (
                known.inputs(clients, seen.updates, layer)
                if rules.remembers
                else check_round(
                    seen.updates if seen.signals is None else seen.signals, known.public, layer
                )
            )
            contributions = rules.scorer.score(inputs, rng)
            del inputs  # as large as the updates themselves
            if rules.remembers:
                known = known.remembering(clients, seen.updates, contributions)
                history = replace(known, models=history.models)
    with clock.phase("aggregation"):
        weights = _weights(rules, replies, contributions)
        change = aggregate(
            replies.updates,
            None if rules.weighting == "uniform" else weights,
            rule=rules.rule,
            norm_bound=rules.norm_bound,
        )
        if touched is not None:
            change = mean_over_touching(change, replies.updates, weights, touched)
    payments = None
    if rules.reward is not None and contributions is not None:
        # Once each: a client may have sent several replies that were refused, or one that was not.
        outside = dict.fromkeys(r.client for r in refused if r.client not in clients)
        payments = pay_round(rules.reward, contributions, clients, list(outside))
    records = _client_records(replies, weights, contributions, payments, refused)
    return Settlement(change, records, refused, history, contributions)


def _screen(replies: Replies, model: FloatArray) -> tuple[Replies, tuple[Rejection, ...]]:
    """Turn away updates whose length is absurd.

    The yardstick is the lower median of the updates that are not zero, or the global model where
    that is longer: so a majority of tiny reports cannot turn away those who work.
    """
    norms = [_norm(row) for row in replies.updates]
    known = sorted(norm for norm in norms if norm > 0)
    if not known:
        return replies, ()
    limit = ABSURD_NORM * max(known[(len(known) - 1) // 2], _norm(model))
    usable = [row for row, norm in enumerate(norms) if math.isfinite(norm) and norm <= limit]
    absurd = tuple(
        Rejection(
            replies.clients[row],
            f"the update's norm must be at most {limit:.3g}, got {norms[row]:.3g}",
        )
        for row in range(len(norms))
        if row not in usable
    )
    return replies.only(usable), absurd


def _norm(vector: FloatArray) -> float:
    with np.errstate(over="ignore"):
        return math.sqrt(float(np.einsum("i,i->", vector, vector, dtype=np.float64)))


def _weights(
    rules: RoundRules, replies: Replies, contributions: Contributions | None
) -> NDArray[np.float64]:
    clients = len(replies.clients)
    if rules.weighting == "score" and contributions is not None:
        return score_weights(contributions.scores, rules.alpha)
    if rules.weighting == "gated" and contributions is not None:
        return gated_weights(contributions, rules.alpha)
    if rules.weighting == "size":
        return check_weights([size or 0 for size in replies.num_examples], clients)
    return np.full(clients, 1 / clients)


def _client_records(
    replies: Replies,
    weights: NDArray[np.float64],
    contributions: Contributions | None,
    payments: Payments | None,
    refused: Sequence[Rejection],
) -> tuple[ClientRecord, ...]:
    """Put together what is known about each client of a round; NaN scores where none were made.

    A client whose reply was rejected is among them only if the reward rule pays it nevertheless.
    """
    if contributions is None:
        contributions = Contributions.of("none", np.full(len(replies.clients), np.nan))
    reasons = contributions.reasons_for(replies.clients)
    rewards = {} if payments is None else payments.by_client()
    labels: Sequence[str | None] = replies.behaviours or [None] * len(replies.clients)
    used = tuple(
        ClientRecord(
            client=client,
            score=float(contributions.scores[row]),
            weight=float(weights[row]),
            p_value=_number(contributions.p_values[row]),
            epsilon=_number(contributions.epsilon[row]),
            flagged=bool(contributions.flagged[row]),
            reason=reasons[row],
            reward=rewards.get(client),
            num_examples=replies.num_examples[row],
            behaviour=labels[row],
        )
        for row, client in enumerate(replies.clients)
    )
    refusals: dict[str, str] = {}
    for refusal in refused:
        refusals.setdefault(refusal.client, refusal.reason)
    return used + tuple(
        ClientRecord(
            client=client,
            score=math.nan,
            weight=math.nan,
            reason=f"rejected: {reason}",
            reward=rewards[client],
        )
        for client, reason in refusals.items()
        if client not in replies.clients and rewards.get(client)
    )


def _number(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)
