"""A plain federation loop: every client in every round, some of them dishonest, any server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours import Assignment, Behaviour, ClientView, Honest, Stale
from fedmerit.experiments.benchmark.models.combine import flatten, unflatten
from fedmerit.experiments.benchmark.models.tasks.task import State, StateLike, Task
from fedmerit.experiments.benchmark.models.training import evaluate, sent_state, train_client
from fedmerit.rng import stream

SHARE = 0.3  # of the clients are dishonest, unless another share is asked for
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
        Who is dishonest, or would be: the same clients of a task, a seed and a share for every
        behaviour.
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


def make_cast(task: Task, behaviour: Behaviour, seed: int, share: float = SHARE) -> Cast:
    """Let the clients that `seed` draws behave as given; where that is honest, nobody lies."""
    count = len(task.clients)
    drawn = Assignment(((share, Stale()),)).assign(count, stream(seed, "models", "liars"))
    chosen = tuple(client for client, kind in enumerate(drawn) if isinstance(kind, Stale))
    told = fitted(behaviour, task)
    return Cast(tuple(told if c in chosen else Honest() for c in range(count)), chosen)


@dataclass
class _Known:
    """What clients know: the public past, newest update first, and reports of their own."""

    model: Vector
    updates: list[Vector] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    own: dict[int, tuple[Vector, ...]] = field(default_factory=dict)

    def publish(self, model: Vector) -> None:
        """Take the next global model."""
        self.updates.insert(0, model - self.model)
        self.norms.append(float(np.linalg.norm(self.updates[0].astype(np.float64))))
        self.model = model


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
    known = _Known(flatten(state))
    states: list[State] = []
    while len(states) < task.rounds and np.isfinite(known.model).all():
        number = len(states) + 1
        trained = {
            c: train_client(
                task, state, data[c], stream(seed, "models", "round", number, "client", c)
            )
            for c in present
            if cast.behaviours[c].trains
        }
        with np.errstate(all="ignore"):  # attacks reach infinity, which servers have to bear
            sent, sizes = _reports(task, cast, seed, number, present, state, known, trained)
            state = settle(state, sent, sizes)
            known.publish(flatten(state))
        states.append(state)
    return states + [state] * (task.rounds - len(states))


def _reports(
    task: Task,
    cast: Cast,
    seed: int,
    number: int,
    present: Sequence[int],
    state: StateLike,
    known: _Known,
    trained: Mapping[int, State],
) -> tuple[dict[str, State], dict[str, int]]:
    """Return the models that clients send, and the sizes that they claim."""
    updates = {c: flatten(result) - known.model for c, result in trained.items()}
    sent: dict[str, State] = {}
    sizes: dict[str, int] = {}
    for c in present:
        behaviour = cast.behaviours[c]
        first = next(i for i in present if cast.behaviours[i] == behaviour)
        past = known.own.get(c, ())
        report = behaviour.report(
            ClientView(
                round=number,
                client=c,
                global_model=known.model,
                global_updates=tuple(known.updates),
                update_norms=tuple(known.norms),
                honest_update=updates.get(c),
                group_update=updates.get(first) if behaviour.shares else None,
                num_examples=task.sizes[c],
                participants=len(present),
                rng=stream(seed, "models", "round", number, "client", c, "report"),
                group_rng=stream(seed, "models", "round", number, "group", behaviour.label),
                own_reports=past,
            )
        )
        if len(past) < behaviour.remembers:
            known.own[c] = (*past, report.update)
        name = behaviour.account(c, number)
        # What training gave, to the bit, where that is what is reported.
        as_trained = report.update is updates.get(c)
        sent[name] = trained[c] if as_trained else unflatten(known.model + report.update, state)
        sizes[name] = report.num_examples
    return sent, sizes


def accuracy(task: Task, states: Sequence[StateLike]) -> float:
    """Return the mean held-out accuracy after the last rounds."""
    return float(np.mean([evaluate(task, state) for state in states[-JUDGED:]]))


def fitted(behaviour: Behaviour, task: Task) -> Behaviour:
    """Tell a behaviour how many classes there are, which everybody knows."""
    if any(setting.name == "classes" for setting in fields(behaviour)):
        return replace(behaviour, classes=task.classes)  # type: ignore[call-arg]
    return behaviour
