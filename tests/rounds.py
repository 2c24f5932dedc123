"""Rounds with public information, made from a recipe: who works, who replays, who colludes."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PublicRound:
    honest: np.ndarray
    last_update: np.ndarray
    model: np.ndarray
    rng: np.random.Generator

    @property
    def public(self):
        return np.stack([self.last_update, self.model])

    def with_riders(self, *riders):
        return np.concatenate([self.honest, np.stack(riders)]).astype(np.float32)

    def noise(self, scale):
        return scale * self.rng.normal(size=self.last_update.shape)


def public_round(clients=6, parameters=4000, seed=0, private=1.0):
    """Honest updates: half of the last update, a shared direction, something of their own."""
    rng = np.random.default_rng(seed)
    last = 0.002 * rng.standard_t(4, size=parameters)
    shared = 0.002 * rng.normal(size=parameters)
    own = 0.002 * rng.normal(size=(clients, parameters))
    honest = 0.5 * last + private * shared + own
    return PublicRound(honest, last, 0.05 * rng.normal(size=parameters), rng)
