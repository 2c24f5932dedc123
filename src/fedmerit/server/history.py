"""What a server knows from round to round: the history that scores use, totals, and all of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedmerit.evidence.bets import NAMING_RATE, Wealth, bet, rank
from fedmerit.flags import Flag
from fedmerit.panel import Book
from fedmerit.types import (
    Contributions,
    FloatArray,
    Needs,
    RoundInputs,
    RoundRecord,
    Signals,
)
from fedmerit.validation import check_count, check_round

OLDER_UPDATES = 10
REMEMBERED_CLIENTS = 1000
EVERYTHING = Needs(floats=True, previous=True, trust=True, naming=NAMING_RATE)


@dataclass(frozen=True)
class RoundHistory:
    """Public models, each client's previous report, its trust, and the evidence against it.

    It never changes: each step returns the next history.

    Attributes
    ----------
    older
        How many global updates are public information. One older than that could be replayed for
        pay; each costs one vector.
    remembered
        How many clients' previous reports are kept; the longest absent are forgotten first.
    models, previous, trust, wealth
        What is remembered: global models (the newest last), the last report of each client (the
        latest last), the sum of each client's work, and what bets against it have come to.
    """

    older: int = OLDER_UPDATES
    remembered: int = REMEMBERED_CLIENTS
    models: tuple[FloatArray, ...] = ()
    previous: Mapping[str, FloatArray] = field(default_factory=dict)
    trust: Mapping[str, float] = field(default_factory=dict)
    wealth: Mapping[str, Wealth] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.models:  # later ones are made from one that was checked
            check_count("older", self.older, least=1)
            check_count("remembered", self.remembered, least=0)

    def published(self, model: FloatArray) -> "RoundHistory":
        """Return the history after `model` was sent to the clients."""
        return replace(self, models=(*self.models, model)[-self.older - 1 :])

    def at(self, positions: NDArray[np.int64]) -> "RoundHistory":
        """Return the history with the parameters at `positions` of its models.

        Previous reports stay: they are kept as they were scored.
        """
        return replace(self, models=tuple(model[positions] for model in self.models))

    @property
    def updates(self) -> tuple[FloatArray, ...]:
        """Global updates between the remembered models, the newest first."""
        pairs = zip(self.models, self.models[1:], strict=False)
        return tuple(after - before for before, after in pairs)[::-1]

    @property
    def public(self) -> FloatArray | None:
        """The last global update, the current global model, then older updates; None before any."""
        if not self.models:
            return None
        updates = self.updates
        return np.stack([*updates[:1], self.models[-1], *updates[1:]])

    def named(self, rate: float) -> list[str]:
        """Return whom evidence over the rounds so far names, at this false discovery rate."""
        if rate == 0:
            return []
        names, count = rank(self.wealth, rate)
        return names[:count]

    def inputs(
        self,
        clients: Sequence[str],
        updates: ArrayLike | Signals,
        layers: ArrayLike | None = None,
        needs: Needs = EVERYTHING,
    ) -> RoundInputs:
        """Return checked inputs for a scorer: `updates` with what it needs of the past."""
        plain = check_round(updates, self.public, layers)
        previous = trust = named = None
        if needs.previous and isinstance(plain.updates, np.ndarray):
            previous = np.zeros_like(plain.updates)
            for row, client in enumerate(clients):
                if client in self.previous:
                    previous[row] = self.previous[client]
        if needs.trust:
            trust = np.array([self.trust.get(client, 0.0) for client in clients])
        if needs.naming:
            suspects = set(self.named(needs.naming))
            named = np.array([client in suspects for client in clients], dtype=np.bool_)
        return replace(plain, previous=previous, trust=trust, named=named)

    def remembering(
        self,
        clients: Sequence[str],
        updates: FloatArray,
        result: Contributions,
        needs: Needs = EVERYTHING,
    ) -> "RoundHistory":
        """Return the history with what a scorer needs of this round later, and what it showed."""
        previous, trust = dict(self.previous), dict(self.trust)
        for row, client in enumerate(clients):
            if needs.previous and self.remembered:
                previous.pop(client, None)
                previous[client] = updates[row].copy()
            if result.work is not None:
                trust[client] = trust.get(client, 0.0) + float(result.work[row])
        kept = list(previous)[max(len(previous) - self.remembered, 0) :]
        return replace(
            self,
            previous={client: previous[client] for client in kept},
            trust=trust,
            wealth={**self.wealth, **bet(self.wealth, clients, result)},
        )


@dataclass(frozen=True)
class Total:
    """One client over all rounds so far.

    Attributes
    ----------
    rounds : int
        Rounds in which its reply was judged.
    score, weight : float
        Sums over these rounds.
    reward : int
        All it was paid, in the smallest unit.
    flagged : int
        Rounds in which it was flagged.
    rejected : int
        Replies that were not used.
    flag : Flag or None
        The latest.
    label : str or None
        How it calls itself.
    value, value_error : float or None
        What it added to the model as its peers judged it, and how far that may be off: the sum of
        its rounds' standard errors, since they rest on the same judgements. None without a panel.
    """

    rounds: int = 0
    score: float = 0.0
    weight: float = 0.0
    reward: int = 0
    flagged: int = 0
    rejected: int = 0
    flag: Flag | None = None
    label: str | None = None
    value: float | None = None
    value_error: float | None = None


def with_round(known: Mapping[str, Total], record: RoundRecord) -> dict[str, Total]:
    """Return the totals after one more round."""
    totals = dict(known)
    flagged = {entry.client for entry in record.clients if entry.flagged}
    for entry in record.clients:
        before = totals.get(entry.client, Total())
        after = replace(
            before,
            reward=before.reward + (entry.reward or 0),
            flag=entry.flag or before.flag,
            label=entry.label or before.label,
            value=_sum(before.value, entry.value),
            value_error=_sum(before.value_error, entry.value_error),
        )
        if not math.isnan(entry.weight):
            after = replace(
                after,
                rounds=before.rounds + 1,
                score=before.score + (0.0 if math.isnan(entry.score) else entry.score),
                weight=before.weight + entry.weight,
                flagged=before.flagged + (entry.client in flagged),
            )
        totals[entry.client] = after
    for refusal in record.rejected:
        before = totals.get(refusal.client, Total())
        flag = Flag(refusal.kind, refusal.reason)
        totals[refusal.client] = replace(before, rejected=before.rejected + 1, flag=flag)
    return totals


def _sum(before: float | None, more: float | None) -> float | None:
    return before if more is None else (before or 0.0) + more


@dataclass(frozen=True)
class ServerState:
    """What a server knows after `round` rounds; each step returns the next state.

    Attributes
    ----------
    round : int
    history : RoundHistory
        Public models, clients' past, and the evidence over rounds.
    totals : mapping of client to Total
    record : RoundRecord or None
        The newest round as it was recorded: should the ledger have missed it, it is written there.
    book : Book
        What clients said of each other's updates.
    """

    round: int
    history: RoundHistory
    totals: Mapping[str, Total] = field(default_factory=dict)
    record: RoundRecord | None = None
    book: Book = field(default_factory=Book)

    @property
    def model(self) -> FloatArray:
        """The current global model."""
        return self.history.models[-1]
