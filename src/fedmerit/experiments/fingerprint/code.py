"""The code that decided a result, as digests."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from fedmerit.experiments.fingerprint.reach import Reach

# What writes down, shows or looks up what was decided elsewhere. Whoever chooses by name from a
# registry names what was chosen as an entry of its own.
BYSTANDERS = (
    "fedmerit.behaviours.registry",
    "fedmerit.cli",
    "fedmerit.columns",
    "fedmerit.errors",
    "fedmerit.experiments.benchmark.models.registry",
    "fedmerit.experiments.fingerprint",
    "fedmerit.files",
    "fedmerit.ledger",
    "fedmerit.lock",
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


@cache
def code_of(*entries: str, closed: tuple[str, ...] = ()) -> Code:
    """Return digests of all that ``module`` or ``module:name`` can reach.

    Parameters
    ----------
    *entries : str
        Where it starts.
    closed : tuple of str
        Modules that are there, but decide nothing in this case, beside `BYSTANDERS`.
    """
    reach = Reach((*BYSTANDERS, *closed))
    for entry in entries:
        reach.enter(entry)
    return Code({room: _digest(texts) for room, texts in sorted(reach.texts.items())})


def place_of(thing: object) -> str:
    """Return the entry of a function or class, or of the class of a value.

    For what is made inside a function, that is its whole module.
    """
    kind: Any = thing if hasattr(thing, "__qualname__") else type(thing)
    name = kind.__qualname__
    return kind.__module__ if "<locals>" in name else f"{kind.__module__}:{name.partition('.')[0]}"


def _digest(texts: Iterable[str]) -> str:
    return sha256("\n".join(sorted(texts)).encode()).hexdigest()[:_LENGTH]
