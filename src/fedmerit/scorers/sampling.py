"""Scoring on a sample of the parameters, so that the cost does not grow with the model."""

from dataclasses import replace

import numpy as np

from fedmerit.types import RoundInputs, Signals

DEFAULT_SAMPLE = 50_000
# Of every layer at least so many parameters are kept: the last layer is small and says much.
_LEAST_PER_LAYER = 2_000


def sample_parameters(
    inputs: RoundInputs, size: int | None, rng: np.random.Generator
) -> RoundInputs:
    """Return the round restricted to about `size` parameters, the same for all clients.

    The draw comes after the updates are in: nobody can know which parameters will count.
    """
    if size is None or inputs.parameters <= size or isinstance(inputs.updates, Signals):
        return inputs
    share = size / inputs.parameters
    wanted = np.full(inputs.parameters, share)
    if inputs.layers is not None:
        per_layer = np.bincount(inputs.layers)
        rate = np.minimum(np.maximum(share, _LEAST_PER_LAYER / np.maximum(per_layer, 1)), 1.0)
        wanted = rate[inputs.layers]
    kept = np.flatnonzero(rng.random(inputs.parameters) < wanted)
    return replace(
        inputs,
        updates=np.ascontiguousarray(inputs.updates[:, kept]),
        public=None if inputs.public is None else np.ascontiguousarray(inputs.public[:, kept]),
        layers=None if inputs.layers is None else inputs.layers[kept],
        previous=None if inputs.previous is None else inputs.previous[:, kept],
    )
