"""The code that decided a result, as digests."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from fedmerit.experiments.fingerprint.reach import Reach

# What writes down, shows or looks up what was decided elsewhere. Whoever chooses by name from a
# registry names what was chosen as an entry of its own.
BYSTANDERS = (
    "fedmerit.behaviours.registry",
    "fedmerit.cli",
    "fedmerit.disk",
    "fedmerit.errors",
    "fedmerit.experiments.benchmark.models.tasks.registry",
    "fedmerit.experiments.fingerprint",
    "fedmerit.experiments.kept",
    "fedmerit.ledger",
    "fedmerit.records.columns",
    "fedmerit.report",
    "fedmerit.scorers.registry",
    "fedmerit.tracking",
    "fedmerit.version",
)
_LENGTH = 8  # hexadecimal digits that are kept


@dataclass(frozen=True)
class Code:
    """Digests of the code that decides something, by room."""

    rooms: dict[str, str]

    @property
    def digest(self) -> str:
        """One digest for all of it."""
        return _digest(f"{room} {digest}" for room, digest in self.rooms.items())

    def changed(self, other: "Code") -> list[str]:
        """Return the rooms in which `other` is not the same."""
        rooms = sorted(self.rooms.keys() | other.rooms.keys())
        return [room for room in rooms if self.rooms.get(room) != other.rooms.get(room)]


@dataclass(frozen=True)
class Sources:
    """Where the code that decides something is found.

    Attributes
    ----------
    entries : tuple of str
        ``module``, ``module:name`` or ``module:class.method``: all that these can reach decides.
    closed : tuple of str
        Rooms that decide nothing in this case when they are reached from outside of them.
        `BYSTANDERS` without an entry in them never do.
    """

    entries: tuple[str, ...]
    closed: tuple[str, ...] = ()

    @classmethod
    def of(cls, *things: object, closed: tuple[str, ...] = ()) -> "Sources":
        """Return the sources of functions, classes and values; a text is an entry as it is.

        Settings of a value that are dataclasses themselves count with it.
        """
        places = {place for thing in things for place in _places(thing)}
        return cls(tuple(sorted(places)), closed)

    @property
    def code(self) -> Code:
        """The code as it is now."""
        return code_of(*self.entries, closed=self.closed)


@cache
def code_of(*entries: str, closed: tuple[str, ...] = ()) -> Code:
    """Return digests of all that `entries` can reach; see `Sources`."""
    shut = [room for room in BYSTANDERS if not any(_is_in(entry, room) for entry in entries)]
    reach = Reach(shut, closed)
    for entry in entries:
        reach.enter(entry)
    return Code({room: _digest(texts) for room, texts in sorted(reach.texts.items())})


def place_of(thing: object) -> str:
    """Return the entry of a function, class or method, or of the class of a value.

    For what is made inside a function, that is its whole module.
    """
    kind: Any = thing if hasattr(thing, "__qualname__") else type(thing)
    module, name = kind.__module__, kind.__qualname__
    if module == "__main__" and (spec := sys.modules[module].__spec__) is not None:
        module = spec.name  # python -m
    return module if "<locals>" in name else f"{module}:{name}"


def _places(thing: object) -> Iterator[str]:
    yield thing if isinstance(thing, str) else place_of(thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        for setting in fields(thing):
            value = getattr(thing, setting.name)
            if is_dataclass(value):
                yield from _places(value)


def _is_in(entry: str, room: str) -> bool:
    return f"{entry.partition(':')[0]}.".startswith(f"{room}.")


def _digest(texts: Iterable[str]) -> str:
    return sha256("\n".join(sorted(texts)).encode()).hexdigest()[:_LENGTH]
