"""Named random streams: every draw belongs to (seed, purpose, round, client), nothing is global.

A stream depends only on its own name, so that adding a client, skipping a round or resuming a run
does not change what any other stream yields.
"""

import hashlib

import numpy as np

from fedmerit.errors import SettingError

RandomSource = int | np.random.Generator | None


def as_generator(rng: RandomSource) -> np.random.Generator:
    """Turn ``None`` (fresh entropy), a seed or a generator into a generator.

    Fresh entropy is the safe default of a server: which halves and peers are drawn must not be
    predictable to the clients that are scored with them.
    """
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        return np.random.default_rng()
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        raise SettingError(f"rng must be None, an integer seed or a numpy Generator, got {rng!r}")
    if rng < 0:
        raise SettingError(f"seed must be at least 0, got {rng}")
    return np.random.default_rng(int(rng))


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """Return the generator of the stream called `name` under `seed`.

    Examples
    --------
    >>> first = stream(7, "round", 3, "client", 12, "noise").integers(100)
    >>> again = stream(7, "round", 3, "client", 12, "noise").integers(100)
    >>> bool(first == again)
    True
    """
    if seed < 0:
        raise SettingError(f"seed must be at least 0, got {seed}")
    # repr keeps 1 and "1" apart; the separator keeps ("ab", "c") and ("a", "bc") apart.
    text = "\x1f".join(repr(part) for part in name)
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.default_rng(
        np.random.SeedSequence(entropy=seed, spawn_key=tuple(int(word) for word in words))
    )


def seeds(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw `count` seeds for kernels, which expand them into bit streams of their own."""
    return rng.integers(0, 2**64, size=count, dtype=np.uint64)
