"""What a client of a made-up federation sees."""

import numpy as np

from fedmerit.behaviours import Behaviour, ClientView
from fedmerit.rng import stream

SIZE = 20_000


def vector(*name):
    return stream(1, *name).standard_normal(SIZE, dtype=np.float32)


def history(rounds):
    """Global updates of so many rounds, newest first, each half as long as the one before."""
    shared = vector("shared")
    return tuple(
        (0.02 * 0.5**t * (shared + vector("update", t))).astype(np.float32)
        for t in reversed(range(rounds))
    )


def view_of(behaviour: Behaviour, client: int = 0, rounds: int = 3, trained=None) -> ClientView:
    """Return the view after `rounds` rounds; `trained` replaces what training gave."""
    updates = history(rounds)
    if trained is None:
        trained = np.linspace(-1, 1, SIZE, dtype=np.float32)
    return ClientView(
        round=rounds + 1,
        client=client,
        global_model=vector("model"),
        global_updates=updates[:3],
        update_norms=tuple(float(np.linalg.norm(u.astype(float))) for u in reversed(updates)),
        honest_update=trained if behaviour.trains else None,
        group_update=np.linspace(-1, 1, SIZE, dtype=np.float32) if behaviour.shares else None,
        num_examples=600,
        participants=20,
        rng=stream(1, "client", client),
        group_rng=stream(1, "group"),
    )
