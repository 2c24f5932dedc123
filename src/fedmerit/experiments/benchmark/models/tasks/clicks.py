"""A recommender whose clients are the users of a click log."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours import LocalData
from fedmerit.experiments.benchmark.models.tasks.task import Task, Training
from fedmerit.rng import stream
from fedmerit.simulation.clicks.generator import generate_events
from fedmerit.simulation.clicks.log import TRAIN, LogSettings, build_log
from fedmerit.simulation.config import DinChoice
from fedmerit.simulation.training.din import build_din

CLIENTS = 14
ITEMS = 400  # about as many as a user has events, so that everybody leaves some rows untouched


def din(seed: int, quick: bool, folder: Path | None) -> Task:
    """Return a Deep Interest Network on an invented log; each client is one user.

    Nobody trains on the last fifth of a user's events.
    """
    del folder  # the log is invented
    events = generate_events(
        users=CLIENTS, items=ITEMS, events_per_user=200 if quick else 400, seed=seed
    )
    log = build_log("clicks", events, LogSettings(history=10, split="user"))

    def rows(chosen: NDArray[np.bool_]) -> LocalData:
        return LocalData(log.x[chosen], log.label[chosen], log.sizes)

    known = log.part == TRAIN
    return Task(
        name="din",
        about=f"Deep Interest Network, an invented click log with {log.items} items, "
        f"{log.users} clients: its users",
        module=build_din(log, DinChoice(spread=0.3), stream(seed, "models", "module")),
        clients=tuple(rows(known & (log.user == user)) for user in range(log.users)),
        held_out=rows(~known),
        classes=2,
        training=Training("adam", rate=1e-2, batch=64),
        rounds=12,
    )
