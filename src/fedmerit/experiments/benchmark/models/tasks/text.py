"""A character-level transformer whose clients are authors."""

from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fedmerit.behaviours import LocalData
from fedmerit.experiments.benchmark.models.tasks.corpus import texts
from fedmerit.experiments.benchmark.models.tasks.networks import CharacterTransformer
from fedmerit.experiments.benchmark.models.tasks.task import Task, Training
from fedmerit.experiments.benchmark.models.training import make_module
from fedmerit.rng import stream

ALPHABET = " abcdefghijklmnopqrstuvwxyz.,;:'?!-\n"
CLIENTS = 13
LENGTH = 32  # characters of a sample
HELD_OUT = 100  # samples of every author


def transformer(seed: int, quick: bool, folder: Path | None) -> Task:
    """Return a causal transformer; each client is a book, or whoever wrote a text."""
    origin, found = texts(CLIENTS, folder)
    most = 6_000 if quick else 12_000  # characters of one author
    rng = stream(seed, "models", "text")
    clients, held_out = [], []
    for text in found.values():
        codes = encode(text)
        cut = round(0.8 * len(codes))
        # Long texts stay longer: what is kept grows with the root of the length.
        kept = min(cut, round(most * (cut / max(map(len, found.values()))) ** 0.5))
        start = int(rng.integers(cut - kept + 1))
        clients.append(samples(codes[start : start + kept]))
        held_out.append(samples(codes[cut:], HELD_OUT))
    return Task(
        name="transformer",
        about=f"character transformer, {origin}, {CLIENTS} clients: {', '.join(found)}",
        module=make_module(
            lambda: CharacterTransformer(len(ALPHABET), LENGTH), stream(seed, "models", "module")
        ),
        clients=tuple(clients),
        held_out=LocalData(
            np.concatenate([part.x for part in held_out]),
            np.concatenate([part.y for part in held_out]),
        ),
        classes=len(ALPHABET),
        training=Training("adam", rate=3e-3, batch=32),
        rounds=10,
    )


def encode(text: str) -> NDArray[np.int64]:
    """Return a number per character, of the alphabet that everybody knows; others are spaces."""
    numbers = {letter: number for number, letter in enumerate(ALPHABET)}
    return np.array([numbers.get(letter, 0) for letter in text.lower()], dtype=np.int64)


def samples(codes: NDArray[np.int64], most: int | None = None) -> LocalData:
    """Cut a text into samples: characters, and the character after each; `most` of them, spread."""
    windows = sliding_window_view(codes, LENGTH + 1)[::LENGTH]
    if most is not None and len(windows) > most:
        windows = windows[np.linspace(0, len(windows) - 1, most).astype(int)]
    sizes = (len(ALPHABET),) * LENGTH
    return LocalData(np.array(windows[:, :-1]), np.array(windows[:, 1:]), sizes)
