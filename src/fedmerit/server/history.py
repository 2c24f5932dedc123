"""What a server remembers from round to round, so that scores can use it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedmerit.evidence.bets import NAMING_RATE, Wealth, bet, rank
from fedmerit.types import Contributions, FloatArray, Needs, RoundInputs, Signals
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
        if needs.previous and isinstance(plain.updates, np.ndarray):
            previous = np.zeros_like(plain.updates)
            for row, client in enumerate(clients):
                if client in self.previous:
                    previous[row] = self.previous[client]
            plain = replace(plain, previous=previous)
        if needs.trust:
            trust = np.array([self.trust.get(client, 0.0) for client in clients])
            plain = replace(plain, trust=trust)
        if needs.naming:
            suspects = set(self.named(needs.naming))
            named = np.array([client in suspects for client in clients], dtype=np.bool_)
            plain = replace(plain, named=named)
        return plain

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
