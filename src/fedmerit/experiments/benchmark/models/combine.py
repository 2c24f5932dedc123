"""Servers without scores, to compare with: FedAvg as Flower computes it, and the median."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedmerit.experiments.benchmark.models.tasks.task import State, StateLike


def fedavg(model: StateLike, sent: Mapping[str, StateLike], sizes: Mapping[str, int]) -> State:
    """Return the mean of the clients' states by size, to the bit that of Flower's FedAvg.

    Counters (arrays that are not floating-point) keep the server's value, which Flower averages.
    """
    total = sum(sizes.values())
    combined: State = {}
    for name, value in model.items():
        if value.dtype.kind != "f":
            combined[name] = value
            continue
        parts = [np.asarray(sent[client][name] * (sizes[client] / total)) for client in sent]
        for part in parts[1:]:
            parts[0] += part
        combined[name] = parts[0]
    return combined


def coordinate_median(
    model: StateLike, sent: Mapping[str, StateLike], sizes: Mapping[str, int]
) -> State:
    """Return the middle of the clients' values, parameter by parameter; sizes do not count."""
    del sizes
    return {
        name: np.median([state[name] for state in sent.values()], axis=0).astype(value.dtype)
        if value.dtype.kind == "f"
        else value
        for name, value in model.items()
    }


def flatten(state: StateLike) -> NDArray[np.float32]:
    """Return the floating-point arrays of a state as one vector, in order."""
    arrays = [value.reshape(-1) for value in state.values() if value.dtype.kind == "f"]
    return np.concatenate(arrays).astype(np.float32, copy=False)


def unflatten(vector: NDArray[np.float32], like: StateLike) -> State:
    """Return `vector` as arrays by name; counters as they are in `like`."""
    state, start = {}, 0
    for name, value in like.items():
        if value.dtype.kind != "f":
            state[name] = value
            continue
        state[name] = vector[start : start + value.size].reshape(value.shape).astype(value.dtype)
        start += value.size
    return state


def difference(first: StateLike, second: StateLike) -> float:
    """Return the largest difference between floating-point values of two states."""
    with np.errstate(invalid="ignore"):
        return float(np.abs(flatten(first) - flatten(second)).max())


def same_bits(first: StateLike, second: StateLike) -> bool:
    """Say whether the floating-point arrays of two states are equal to the last bit."""
    names = [name for name, value in second.items() if value.dtype.kind == "f"]
    return all(first[name].tobytes() == second[name].tobytes() for name in names)
