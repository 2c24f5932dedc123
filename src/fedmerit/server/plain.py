"""Rules as plain values that JSON can hold, and back: nothing is ever unpickled."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from fedmerit.errors import CheckpointError
from fedmerit.incentive.rewards import RULES
from fedmerit.panel import Panel
from fedmerit.quantisers import QUANTISERS
from fedmerit.scorers import SCORERS
from fedmerit.server.rules import RoundRules

_CLASS = "class"
_KNOWN: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (RoundRules, Panel, *SCORERS.values(), *QUANTISERS.values(), *RULES.values())
}


def to_plain(value: object) -> Any:
    """Return a setting as plain values; one of a class that is not ours by how it prints."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value) and _KNOWN.get(type(value).__name__) is type(value):
        settings = {f.name: to_plain(getattr(value, f.name)) for f in fields(value) if f.init}
        return {_CLASS: type(value).__name__, **settings}
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return {_CLASS: None, "repr": repr(value)}


def from_plain(stored: Any, what: str = "rules") -> Any:
    """Return the setting that `to_plain` stored."""
    if not isinstance(stored, dict):
        return stored
    name = stored.get(_CLASS)
    if name is None:
        raise CheckpointError(
            f"{what} must be given to load, a state cannot hold an object of your own: "
            f"{str(stored.get('repr'))[:100]}; use Server.load(path, rules=...)"
        )
    if name not in _KNOWN:
        raise CheckpointError(f"{what} must be of a class that fedmerit knows, got {name!r}")
    settings = {key: from_plain(value, key) for key, value in stored.items() if key != _CLASS}
    return _KNOWN[name](**settings)
