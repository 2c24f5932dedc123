"""Dishonest reports as recipes: what a client could send instead of its update."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

PRIVACY_NOISE = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1)
RIDER_SD = 0.01


@dataclass(frozen=True)
class Recipe:
    """A report to send instead of one's update; `draw` makes it."""

    name: str
    draw: Callable[[np.random.Generator], np.ndarray]


def privacy_noise(own: np.ndarray) -> Iterator[Recipe]:
    """Yield the informed reports: the own update and noise."""
    for scale in PRIVACY_NOISE:
        yield Recipe(
            f"own update, noise of sd {scale:g}",
            lambda rng, scale=scale: own + rng.normal(0, scale, own.size),
        )


def uninformed(model: np.ndarray, last: np.ndarray | None) -> Iterator[Recipe]:
    """Yield reports that take no training.

    `model` is the global model and `last` the last global update, which there is none of in the
    first round.
    """
    size = model.size
    yield Recipe("zero update", lambda _: np.zeros(size))
    yield Recipe("random update, sd 0.01", lambda rng: rng.normal(0, RIDER_SD, size))
    yield Recipe("random model, sd 0.01", lambda rng: rng.normal(0, RIDER_SD, size) - model)
    if last is None:
        return
    yield Recipe("stale: the last global update", lambda _: last)
    for share in (0.3, 1.0):
        yield Recipe(
            f"stale, noise of {share:g} standard deviations",
            lambda rng, share=share: last + rng.normal(0, share * last.std(), size),
        )
    yield Recipe("stale, noise of sd 0.001", lambda rng: last + rng.normal(0, 1e-3, size))
    yield Recipe(
        "stale, noise of sd 1e-3, 1e-4 or 1e-5",
        lambda rng: last + rng.normal(0, 1, size) * rng.choice([1e-3, 1e-4, 1e-5], size),
    )
    yield Recipe("random signs times |last|", lambda rng: rng.choice([-1, 1], size) * np.abs(last))
