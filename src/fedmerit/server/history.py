"""What a server knows from round to round: the history that scores use, totals, and all of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedmerit.evidence.bets import NAMING_RATE, Wealth, bet, told_of
from fedmerit.evidence.past import Forecast, Sketches
from fedmerit.flags import Flag
from fedmerit.panel import Book
from fedmerit.sampling import choose_parameters
from fedmerit.types import (
    Contributions,
    FloatArray,
    Needs,
    RoundInputs,
    RoundRecord,
    Signals,
)

OLDER_UPDATES = 10
OWN_REPORTS = 4  # of each client are remembered whole
REMEMBERED_CLIENTS = 1000
EVERYTHING = Needs(floats=True, previous=True, trust=True, naming=NAMING_RATE)


@dataclass(frozen=True)
class View:
    """Which parameters scores look at: the same in every round, so that no others are kept.

    Attributes
    ----------
    positions : (n,) int64 or None
        In rising order; None: all. Clients must not know them.
    layers : (n,) int64 or None
        The layer of each of them.
    sampled : bool
        Whether the scorer wants these and no others; if not, it may choose some itself.
    """

    positions: NDArray[np.int64] | None = None
    layers: NDArray[np.int64] | None = None
    sampled: bool = False

    @classmethod
    def draw(
        cls,
        parameters: int,
        layers: NDArray[np.integer] | None,
        scored: NDArray[np.int64] | None,
        size: int | None,
        rng: np.random.Generator,
    ) -> "View":
        """Draw which of the `parameters` to look at: about `size` of those that are `scored`."""
        if scored is not None:
            parameters, layers = len(scored), None if layers is None else layers[scored]
        drawn = None
        if size is not None and parameters > size:
            drawn = choose_parameters(parameters, layers, size, rng)
            layers = None if layers is None else layers[drawn]
        positions = drawn if scored is None else scored if drawn is None else scored[drawn]
        known = None if layers is None else layers.astype(np.int64)
        return cls(positions, known, size is not None)

    def of(self, vector: FloatArray) -> FloatArray:
        """Return the values of a whole vector that are looked at."""
        return vector if self.positions is None else vector[self.positions]


@dataclass(frozen=True)
class RoundHistory:
    """Public models, each client's earlier reports, its trust, and the evidence against it.

    It never changes: each step returns the next history. Of models and reports it keeps what scores
    look at, and of the newest model all.

    Attributes
    ----------
    older
        How many global updates are public information. One older than that could be replayed for
        pay.
    remembered
        How many clients' earlier reports are kept; the longest absent are forgotten first.
    view : View
        Which parameters scores look at.
    model : vector or None
        The newest global model, whole.
    models, previous, past, testimony, trust, wealth
        What is remembered: global models (the newest last), the last reports of each client (the
        newest last) and sketches of more of them, what it has told, the sum of its work, and what
        bets against it have come to.
    forecast
        What the models so far tell about the next update.
    """

    older: int = OLDER_UPDATES
    remembered: int = REMEMBERED_CLIENTS
    view: View = field(default_factory=View)
    model: FloatArray | None = None
    models: tuple[FloatArray, ...] = ()
    previous: Mapping[str, tuple[FloatArray, ...]] = field(default_factory=dict)
    testimony: Mapping[str, FloatArray] = field(default_factory=dict)
    trust: Mapping[str, float] = field(default_factory=dict)
    wealth: Mapping[str, Wealth] = field(default_factory=dict)
    past: Sketches = field(default_factory=Sketches)
    forecast: Forecast = field(default_factory=Forecast)

    def published(self, model: FloatArray) -> "RoundHistory":
        """Return the history after `model` was sent to the clients."""
        seen = (*self.models, self.view.of(model))
        forecast = self.forecast.after(seen)
        return replace(self, model=model, models=seen[-self.older - 1 :], forecast=forecast)

    def through(self, view: View) -> "RoundHistory":
        """Return what is kept of the past where scores look at what `view` has.

        A sample stays for the run. Parameters that nobody has looked at have no past: where scores
        want these, earlier reports and models are forgotten.
        """
        if view.sampled and self.view.sampled:
            return self
        if np.array_equal(self.view.positions, view.positions):  # type: ignore[arg-type]
            return replace(self, view=view)
        assert self.model is not None, "a history has a model"
        place = np.full(len(self.model), -1)
        kept = slice(None) if self.view.positions is None else self.view.positions
        place[kept] = np.arange(len(self.models[-1]))
        columns = view.of(place)
        if (columns < 0).any():
            models = (view.of(self.model),)
            return replace(
                self, view=view, models=models, previous={}, testimony={}, past=Sketches()
            )
        return replace(
            self,
            view=view,
            models=tuple(model[columns] for model in self.models),
            previous={
                client: tuple(report[columns] for report in reports)
                for client, reports in self.previous.items()
            },
            testimony={client: told[columns] for client, told in self.testimony.items()},
            past=Sketches(),
        )

    @property
    def updates(self) -> tuple[FloatArray, ...]:
        """Global updates between the remembered models, the newest first."""
        pairs = zip(self.models, self.models[1:], strict=False)
        return tuple(after - before for before, after in pairs)[::-1]

    @property
    def public(self) -> FloatArray | None:
        """The last global update, the current global model, older updates, and a forecast.

        None before any; the forecast only where there is one.
        """
        if not self.models:
            return None
        updates, next_update = self.updates, self.forecast.of(self.models)
        known = [*updates[:1], self.models[-1], *updates[1:]]
        return np.stack(known if next_update is None else [*known, next_update])

    def inputs(
        self,
        clients: Sequence[str],
        updates: FloatArray | Signals,
        layers: NDArray[np.int64] | None = None,
        needs: Needs = EVERYTHING,
        sizes: NDArray[np.float64] | None = None,
    ) -> RoundInputs:
        """Return the inputs for a scorer: `updates` with what it needs of the past.

        The updates are checked, and have the parameters that are looked at; so have `layers`, by
        default those of the view. `sizes`, (k,), are claimed, and count: they are weights.
        """
        previous = testimony = trust = repeated = reported = told = None
        if needs.trust:
            trust = np.array([self.trust.get(client, 0.0) for client in clients])
        floats = None if isinstance(updates, Signals) or not needs.previous else updates
        if floats is not None:
            reports = [self.previous.get(client, ()) for client in clients]
            shape = (len(floats), max(map(len, reports)), floats.shape[1])
            previous = np.empty(shape, dtype=floats.dtype)
            for row, own in enumerate(reports):
                previous[row, len(own) :] = 0.0
                for place, report in enumerate(own):
                    previous[row, place] = report
            testimony = np.empty_like(floats)
            for row, client in enumerate(clients):
                testimony[row] = self.testimony.get(client, 0.0)
        claimed = np.full(len(clients), np.inf) if sizes is None else sizes
        public = self.public
        if floats is not None:
            repeated, reported = self.past.explain(clients, floats, public, claimed)
        if needs.trust or needs.naming:
            told = told_of(self.wealth, clients, needs.naming)
        return RoundInputs(
            updates,
            public,
            self.view.layers if layers is None else layers,
            previous=previous,
            testimony=testimony,
            trust=trust,
            rounds=None if told is None else told.rounds,
            named=None if told is None else told.named,
            standing=None if told is None else told.standing,
            agrees=None if told is None else told.agrees,
            repeated=repeated,
            reports=reported,
            sizes=claimed,
            sampled=self.view.sampled,
        )

    def remembering(
        self,
        clients: Sequence[str],
        updates: FloatArray,
        result: Contributions,
        needs: Needs = EVERYTHING,
    ) -> "RoundHistory":
        """Return the history with what a scorer needs of this round later, and what it showed."""
        previous, trust, testimony = dict(self.previous), dict(self.trust), dict(self.testimony)
        for row, client in enumerate(clients):
            if needs.previous and self.remembered:
                reports = (*previous.pop(client, ()), updates[row].copy())
                previous[client] = reports[-OWN_REPORTS:]
                if result.testimony is not None:
                    testimony[client] = result.testimony[row].copy()
            if result.work is not None:
                trust[client] = trust.get(client, 0.0) + float(result.work[row])
        kept = list(previous)[max(len(previous) - self.remembered, 0) :]
        reports_kept = {client: previous[client] for client in kept}
        testimony_kept = {client: testimony[client] for client in kept if client in testimony}
        past = self.past
        if needs.previous and self.remembered:
            past = past.after(clients, updates, kept)
        return replace(
            self,
            previous=reports_kept,
            testimony=testimony_kept,
            past=past,
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
                flagged=before.flagged + (entry.flag is not None and entry.flag.accuses),
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
        assert self.history.model is not None, "a server begins with a model"
        return self.history.model
