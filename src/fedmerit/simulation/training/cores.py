"""Clients that train in compiled kernels: one on each core, none waits for another."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def on_every_core(train: Callable[[int], None], clients: int) -> None:
    """Call `train` with 0 to `clients` - 1, as many at a time as there are cores."""
    with ThreadPoolExecutor(min(clients, cores())) as pool:
        list(pool.map(train, range(clients)))


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
