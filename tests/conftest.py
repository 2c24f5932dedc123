"""Shared fixtures; with the JIT off, unsigned words wrap as they do in compiled code."""

import os

# Threads that wait for work sleep. By default they spin, which costs two test processes on two
# cores half of their time. It is read once, when OpenMP is loaded: so it stands before the imports.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pytest
from hypothesis import settings

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"

# A deadline would be a timing assertion (the first call compiles); a fixed seed makes runs repeat.
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("plain-python", deadline=None, derandomize=True, max_examples=8)
settings.load_profile("plain-python" if JIT_OFF else "repeatable")


@pytest.fixture(autouse=True)
def _wrapping_words():
    with np.errstate(over="ignore" if JIT_OFF else "warn"):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(20201115)


def example_round(clients=6, parameters=400, riders=1, seed=1):
    """Honest clients share a direction; the last `riders` report noise of their own."""
    source = np.random.default_rng(seed)
    updates = source.normal(size=parameters) + source.normal(size=(clients, parameters))
    if riders:
        updates[-riders:] = source.normal(size=(riders, parameters))
    return updates.astype(np.float32)
