"""Who behaves how: "20% random-update, 10% noise:0.01", and honest is the rest."""

import re
from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import Behaviour
from fedmerit.behaviours.honest import Honest
from fedmerit.behaviours.registry import parse_behaviour
from fedmerit.errors import SettingError
from fedmerit.validation import check_number, read_number

_PART = re.compile(r"\s*(?P<percent>[0-9.]+)\s*%\s*(?P<behaviour>\S+)\s*")


@dataclass(frozen=True)
class Assignment:
    """Shares of the federation's clients that behave in a given way; the rest is honest.

    Attributes
    ----------
    parts : tuple of (share, Behaviour)
        Shares are fractions of all clients and sum to at most 1.
    """

    parts: tuple[tuple[float, Behaviour], ...] = ()

    def __post_init__(self) -> None:
        for share, behaviour in self.parts:
            check_number(f"share of {behaviour.name}", share, least=0, most=1)
        total = sum(share for share, _ in self.parts)
        if total > 1 + 1e-9:
            raise SettingError(f"shares must sum to at most 100%, got {total:.4%}")

    @classmethod
    def parse(cls, text: str) -> "Assignment":
        """Read a comma-separated list of ``PERCENT% BEHAVIOUR``; empty means all honest."""
        if not text.strip():
            return cls()
        parts = []
        for item in text.split(","):
            match = _PART.fullmatch(item)
            if match is None:
                raise SettingError(
                    "behaviours must read like '20% random-update, 10% noise:0.01', "
                    f"got {item.strip()!r}"
                )
            percent = read_number("percentage", match["percent"])
            share = check_number("percentage", percent, least=0, most=100) / 100
            parts.append((share, parse_behaviour(match["behaviour"])))
        return cls(tuple(parts))

    def assign(self, clients: int, rng: np.random.Generator) -> tuple[Behaviour, ...]:
        """Return one behaviour per client; each share is met to within one client.

        The shuffle does not depend on the shares: raising a share keeps the clients it had.
        """
        bounds = np.rint(np.cumsum([share for share, _ in self.parts]) * clients).astype(int)
        order = rng.permutation(clients)
        chosen: list[Behaviour] = [Honest()] * clients
        start = 0
        for (_, behaviour), stop in zip(self.parts, bounds, strict=True):
            for client in order[start:stop]:
                chosen[client] = behaviour
            start = int(stop)
        return tuple(chosen)

    def __str__(self) -> str:
        """Return the spelling that `parse` reads."""
        return ", ".join(f"{share * 100:g}% {behaviour.label}" for share, behaviour in self.parts)
