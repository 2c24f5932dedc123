"""What the strategy inside has gathered over rounds, for a server that starts again.

FedAdam keeps moments, FedAvgM a momentum, an adaptive clip its norm: arrays, lists and mappings of
arrays, and numbers, in the attributes of a strategy. Those that are not as they were when the
strategy was made are its state; the others are settings, which whoever starts it again may change.
FedAdam also makes a model of float32 one of float64: it goes on with that one.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.generic]]
_NUMBER, _ARRAY, _LIST, _MAPPING = "number", "array", "list", "mapping"


def gathered(strategy: Strategy) -> dict[str, NDArray[np.generic]]:
    """Return everything of a strategy that could be state, by where it stands."""
    return {json.dumps(place): value for place, value in _parts(strategy, ())}


def changed_since(before: Arrays, strategy: Strategy) -> dict[str, NDArray[np.generic]]:
    """Return what is not as it was `before`."""
    return {
        place: value
        for place, value in gathered(strategy).items()
        if place not in before
        or not np.array_equal(before[place], value, equal_nan=value.dtype.kind == "f")
    }


def as_made(combined: Arrays, kept: Arrays) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a combined model that are of another type than those `kept`."""
    return {
        json.dumps((None, name)): value
        for name, value in combined.items()
        if value.dtype != kept[name].dtype
    }


def restore(strategy: Strategy, state: Arrays) -> dict[str, NDArray[np.generic]]:
    """Put back what `changed_since` found; return what `as_made` did, by name.

    Parts that this strategy does not have are left out.
    """
    whole: dict[tuple[tuple[str, ...], str, str], dict[Any, NDArray[np.generic]]] = {}
    model = {}
    for place, part in state.items():
        path, name, *more = json.loads(place)
        if path is None:
            model[name] = part
            continue
        kind, key = more
        whole.setdefault((tuple(path), name, kind), {})[key] = part
    for (path, name, kind), parts in whole.items():
        owner: Any = strategy
        for step in path:
            owner = getattr(owner, step, None)
        if not hasattr(owner, name):
            continue
        value: Any = dict(parts)
        if kind == _LIST:
            value = [parts[key] for key in sorted(parts)]
        elif kind == _ARRAY:
            value = parts[None]
        elif kind == _NUMBER:
            value = parts[None].item()
        setattr(owner, name, value)
    return model


def _parts(
    strategy: Strategy, path: tuple[str, ...]
) -> Iterator[tuple[tuple[tuple[str, ...], str, str, Any], NDArray[np.generic]]]:
    """Yield every array of a strategy, and of those that it holds, with where it stands."""
    for name, value in vars(strategy).items():
        if isinstance(value, Strategy):
            yield from _parts(value, (*path, name))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield (path, name, _NUMBER, None), np.asarray(value)
        elif isinstance(value, np.ndarray):
            yield (path, name, _ARRAY, None), value
        elif isinstance(value, list | tuple) and _all_arrays(value):
            for number, part in enumerate(value):
                yield (path, name, _LIST, number), part
        elif isinstance(value, dict) and _all_arrays(value.values()):
            for key, part in value.items():
                yield (path, name, _MAPPING, str(key)), part


def _all_arrays(values: Any) -> bool:
    found = list(values)
    return bool(found) and all(isinstance(v, np.ndarray) and v.dtype.kind in "fiub" for v in found)
