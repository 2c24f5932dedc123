"""Dishonest reports in a round that was observed: the simulator's behaviours, one client's view."""

from collections.abc import Iterator

import numpy as np

from checks.studies.real_rounds import RealRound
from fedmerit.behaviours import parse_behaviour
from fedmerit.behaviours.base import ClientView
from fedmerit.rng import stream

INFORMED = tuple(f"noise:{sd:g}" for sd in (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1))
UNINFORMED = ("zero", "random-update:0.01", "random-model:0.01", "uniform-model")
# These need a global update to start from.
FROM_PUBLIC = (
    "stale",
    "advanced-delta:0.001",
    "adaptive",
    "advanced-rider",
    *(f"disguised:{factor}:{decay:g}" for factor in (1, 3) for decay in (0.5, 1, 2)),
    "sign-mimic",
    "informed",
)


def dishonest_reports(taken: RealRound, client: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield what the client could send instead of its update, by the name of the behaviour."""
    names = INFORMED + UNINFORMED + (() if taken.last is None else FROM_PUBLIC)
    for name in names:
        rng = stream(taken.seed, taken.number, client, name)
        yield name, parse_behaviour(name).report(view_of(taken, client, rng)).update


def view_of(taken: RealRound, client: int, rng: np.random.Generator) -> ClientView:
    """Return what the client knows in the round."""
    updates = taken.public_updates
    return ClientView(
        round=taken.number,
        client=client,
        global_model=taken.model,
        global_updates=updates,
        update_norms=tuple(float(np.linalg.norm(update)) for update in reversed(updates)),
        honest_update=taken.inputs.updates[client],
        group_update=None,
        num_examples=1,
        participants=taken.inputs.clients,
        rng=rng,
        group_rng=rng,
    )
