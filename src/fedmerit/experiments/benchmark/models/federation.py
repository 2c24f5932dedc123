"""A plain federation loop: every client in every round, some of them dishonest, any server."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours import Assignment, Behaviour, ClientView, Honest, Report, Stale
from fedmerit.experiments.benchmark.models.combine import flatten, unflatten
from fedmerit.experiments.benchmark.models.task import State, StateLike, Task
from fedmerit.experiments.benchmark.models.training import evaluate, sent_state, train_client
from fedmerit.rng import stream

SHARE = 0.3  # of the clients are dishonest
JUDGED = 3  # last rounds whose accuracy counts
# From the global state, the clients' states and the sizes they claim to the next global state.
Settle = Callable[[StateLike, dict[str, State], dict[str, int]], State]
Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Cast:
    """Who takes part in a federation, and how.

    Attributes
    ----------
    behaviours : tuple of Behaviour
        One per client.
    drawn : tuple of int
        Who is dishonest, or would be: the same clients of a task and seed for every behaviour.
    """

    behaviours: tuple[Behaviour, ...]
    drawn: tuple[int, ...]

    @property
    def others(self) -> tuple[int, ...]:
        """Who would not be dishonest."""
        return tuple(c for c in range(len(self.behaviours)) if c not in self.drawn)

    @property
    def liars(self) -> tuple[int, ...]:
        """Who is dishonest."""
        # Some behaviours are honest ones with other data, so by type.
        return tuple(c for c in self.drawn if type(self.behaviours[c]) is not Honest)


def make_cast(task: Task, behaviour: Behaviour, seed: int) -> Cast:
    """Let the clients that `seed` draws behave as given; where that is honest, nobody lies."""
    count = len(task.clients)
    drawn = Assignment(((SHARE, Stale()),)).assign(count, stream(seed, "models", "liars"))
    chosen = tuple(client for client, kind in enumerate(drawn) if isinstance(kind, Stale))
    fitted = _fitted(behaviour, task)
    return Cast(tuple(fitted if c in chosen else Honest() for c in range(count)), chosen)


def federate(
    task: Task, cast: Cast, seed: int, settle: Settle, clients: Sequence[int] | None = None
) -> list[State]:
    """Run a federation of `clients` (default: all); return the global states after its rounds.

    Draws depend on the seed, the round and the client alone, so that runs with other servers are
    paired with this one. A model that is not finite any more stays as it is.
    """
    present = range(len(task.clients)) if clients is None else clients
    data = {
        c: cast.behaviours[c].local_data(task.clients[c], stream(seed, "models", "client", c))
        for c in present
    }
    state = sent_state(task.module)
    states: list[State] = []
    public: list[Vector] = []
    own: dict[int, tuple[Vector, ...]] = {}
    for number in range(1, task.rounds + 1):
        model = flatten(state)
        if not np.isfinite(model).all():
            return states + [state] * (task.rounds - len(states))
        trained = {
            c: train_client(
                task, state, data[c], stream(seed, "models", "round", number, "client", c)
            )
            for c in present
            if cast.behaviours[c].trains
        }
        updates = {c: flatten(sent) - model for c, sent in trained.items()}
        sent, claims = {}, {}
        for c in present:
            behaviour = cast.behaviours[c]
            view = _view(task, cast, seed, number, c, model, public, updates, own.get(c, ()))
            with np.errstate(all="ignore"):
                report = behaviour.report(view)
            if len(own.get(c, ())) < behaviour.remembers:
                own[c] = (*own.get(c, ()), report.update)
            name = behaviour.account(c, number)
            sent[name] = _sent(report, updates.get(c), trained.get(c), state)
            claims[name] = report.num_examples
        with np.errstate(all="ignore"):
            state = settle(state, sent, claims)
            public.insert(0, flatten(state) - model)
        states.append(state)
    return states


def accuracy(task: Task, states: Sequence[StateLike]) -> float:
    """Return the mean held-out accuracy after the last rounds."""
    return float(np.mean([evaluate(task, state) for state in states[-JUDGED:]]))


def _view(
    task: Task,
    cast: Cast,
    seed: int,
    number: int,
    client: int,
    model: Vector,
    public: Sequence[Vector],
    updates: dict[int, Vector],
    own: tuple[Vector, ...],
) -> ClientView:
    behaviour = cast.behaviours[client]
    first = next(c for c, other in enumerate(cast.behaviours) if other == behaviour)
    return ClientView(
        round=number,
        client=client,
        global_model=model,
        global_updates=tuple(public),
        update_norms=tuple(
            float(np.linalg.norm(update.astype(np.float64))) for update in reversed(public)
        ),
        honest_update=updates.get(client),
        group_update=updates.get(first) if behaviour.shares else None,
        num_examples=len(task.clients[client].y),
        participants=len(cast.behaviours),
        rng=stream(seed, "models", "round", number, "client", client, "report"),
        group_rng=stream(seed, "models", "round", number, "group", behaviour.label),
        own_reports=own,
    )


def _sent(report: Report, update: Vector | None, trained: State | None, state: StateLike) -> State:
    """Return the model behind a report: what training gave, to the bit, where that is sent."""
    if trained is not None and report.update is update:
        return trained
    with np.errstate(all="ignore"):
        return unflatten(flatten(state) + report.update, state)


def _fitted(behaviour: Behaviour, task: Task) -> Behaviour:
    """Tell a behaviour how many classes there are, which everybody knows."""
    if any(field.name == "classes" for field in fields(behaviour)):
        return replace(behaviour, classes=task.classes)  # type: ignore[call-arg]
    return behaviour
