"""What a saved state must be made of, checked before anything is built from it.

The types stand where the values live: a field that is added to a dataclass is checked by its
annotation, and nothing has to be said twice.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import CheckpointError
from fedmerit.evidence.bets import Wealth
from fedmerit.panel import Book
from fedmerit.server.history import Total
from fedmerit.types import RoundRecord

Arrays = Mapping[str, NDArray[np.generic]]
_MOST = 2**63
_META: Mapping[str, Any] = {
    "round": int,
    "older": int,
    "remembered": int,
    "sampled": bool,
    "reporters": Sequence[str],
    "witnesses": Sequence[str],
    "sketched": Mapping[str, int],
    "trust": Mapping[str, float],
    "wealth": Mapping[str, Wealth],
    "totals": Mapping[str, Total],
    "record": RoundRecord | None,
    "panel": Book,
    "run": str,
    "seed": int | None,
    "about": Mapping[str, Any],
    "ledger": str | None,
    "vector": bool,
    "arrays": Sequence[tuple[str, Sequence[int], str]],
    "fixed": Sequence[str],
    "beside": Sequence[str],
}
_LEAST = {"round": 0, "older": 1, "remembered": 0}
_FINITE = ("models", "model", "reports", "testimony", "sketches", "forecast")


def check_state(arrays: Arrays, meta: object) -> None:
    """Refuse plain values that no server has, and arrays that are not as they say.

    Raises
    ------
    CheckpointError
        Names what is wrong.
    """
    if not isinstance(meta, dict):
        raise CheckpointError(f"a state must be a mapping, got {type(meta).__name__}")
    for name, hint in _META.items():
        if name in meta and not fits(meta[name], hint):
            raise CheckpointError(f"{name} of a state must be {hint}, got {meta[name]!r}"[:300])
    parameters = None
    if "arrays" in meta:  # of a server; a simulation knows its model otherwise
        sizes = {name: math.prod(shape) for name, shape, _ in meta["arrays"]}
        parameters = sum(size for name, size in sizes.items() if name not in meta["fixed"])
        for number, name in enumerate(meta["fixed"]):
            found = arrays[f"fixed-{number}"].size
            if found != sizes[name]:
                raise CheckpointError(
                    f"{name!r} of a state must have {sizes[name]} values, got {found}"
                )
    _check_models(arrays, parameters)
    _check_testimony(arrays, meta)
    _check_sketches(arrays, meta)
    _check_values(arrays, meta)


def _check_values(arrays: Arrays, meta: Mapping[str, Any]) -> None:
    """Refuse numbers that a server never has: a model, for one, stays finite."""
    for name, least in _LEAST.items():
        if meta[name] < least:
            raise CheckpointError(f"{name} of a state must be at least {least}, got {meta[name]}")
    for name in _FINITE:
        rows = arrays.get(name, np.zeros(0))
        if rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
            raise CheckpointError(f"{name} of a state must be finite, got NaN or infinity in it")
    for client, trust in meta["trust"].items():
        if not math.isfinite(trust):
            raise CheckpointError(f"trust of {client!r} must be finite, got {trust}")
    for client, wealth in meta["wealth"].items():
        if (variance := wealth.get("agreed_variance", 0.0)) < 0:
            raise CheckpointError(f"a variance of {client!r} must be at least 0, got {variance}")


def _check_models(arrays: Arrays, parameters: int | None) -> None:
    """Refuse models that are not of so many parameters, or not of those that are looked at."""
    models, positions = arrays["models"], arrays.get("positions")
    if models.ndim != 2 or not len(models) or models.dtype.kind != "f":
        raise CheckpointError(f"models of a state must be rows of floats, got {models.dtype}")
    whole = models[-1] if positions is None else arrays["model"]
    parameters = whole.size if parameters is None else parameters
    if whole.shape != (parameters,) or whole.dtype.kind != "f":
        raise CheckpointError(
            f"models of a state must have the {parameters} parameters of its arrays, got "
            f"{whole.size}"
        )
    if positions is not None:
        _check_places("positions", positions, parameters)
        if models.shape[1] != len(positions):
            raise CheckpointError(
                f"models of a state must have its {len(positions)} positions, got {models.shape[1]}"
            )


def _check_testimony(arrays: Arrays, meta: Mapping[str, Any]) -> None:
    """Refuse testimony that is not of the clients, or not of the parameters, that it says."""
    clients = meta.get("witnesses", ())
    shape = (len(set(clients)), arrays["models"].shape[1])
    found = arrays["testimony"].shape if "testimony" in arrays else (0, shape[1])
    if found != shape or len(clients) != shape[0]:
        raise CheckpointError(f"testimony of a state must have the shape {shape}, got {found}")


def _check_sketches(arrays: Arrays, meta: Mapping[str, Any]) -> None:
    """Refuse sketches that are not as many, or not where they say they are."""
    places = arrays.get("sketched places")
    if places is None:
        return
    _check_places("sketched places", places, arrays["models"].shape[1])
    shape = (sum(meta["sketched"].values()), len(places))
    if arrays["sketches"].shape != shape or min(meta["sketched"].values(), default=1) < 1:
        raise CheckpointError(
            f"sketches of a state must have the shape {shape}, got {arrays['sketches'].shape}"
        )


def _check_places(name: str, places: NDArray[np.generic], below: int) -> None:
    rising = places.ndim == 1 and places.dtype.kind == "i" and bool(np.all(np.diff(places) > 0))
    if not rising or (len(places) and not 0 <= places[0] <= places[-1] < below):
        raise CheckpointError(f"{name} of a state must rise from 0 to below {below}")


def fits(value: object, hint: Any) -> bool:
    """Whether a plain value, or an object made from one, is what an annotation says."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if hint is None or hint is type(None):
        return value is None
    if hint is float:
        return type(value) is float or fits(value, int)
    if hint is int:
        return type(value) is int and -_MOST <= value < _MOST
    if hint is bytes:  # in base64
        return type(value) is str
    if hint in (str, bool):
        return type(value) is hint
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(
            fits(key, parts[0]) and fits(item, parts[1]) for key, item in value.items()
        )
    if origin is not None and issubclass(origin, Sequence):
        if not isinstance(value, list | tuple):
            return False
        if origin is tuple and parts[-1] is not Ellipsis:
            return len(value) == len(parts) and all(map(fits, value, parts))
        return all(fits(item, parts[0]) for item in value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return isinstance(value, str) and value in {member.value for member in hint}
    if dataclasses.is_dataclass(hint):
        return isinstance(value, hint) or _fits_fields(value, hint)  # type: ignore[arg-type]
    return True


def _fits_fields(value: object, kind: Any) -> bool:
    if not isinstance(value, dict):
        return False
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    required = {
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    return required <= set(value) <= set(fields) and all(
        fits(item, hints[name]) for name, item in value.items()
    )
