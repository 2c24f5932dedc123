"""Replies are hostile input, whatever engine brings them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import InvalidInputError
from fedmerit.types import FloatArray, Signals

LONGEST_REASON = 200
_MOST_EXAMPLES = 2**63 - 1


@dataclass(frozen=True)
class Replies:
    """The usable replies of a round, one row each: checked in shape and dtype, and finite.

    Attributes
    ----------
    clients : sequence of str
        Different names, one for each row.
    updates : (k, d) float array
        What is combined.
    num_examples : sequence of int or None
        Claimed data sizes; None where the weighting does not need them.
    signals : Signals or None
        What is scored, where clients uploaded levels instead of floats.
    behaviours : sequence of str, optional
        What the clients really did, where that is known.
    labels : mapping
        How clients call themselves, by client.
    models : callable or None
        From a client to the model that it sent, as one vector; None where clients sent updates.
    arrived : sequence of str, optional
        The clients in the order in which their replies came; sums of models follow it, as FedAvg's
        do. By default the order of the rows.
    """

    clients: Sequence[str]
    updates: FloatArray
    num_examples: Sequence[int | None]
    signals: Signals | None = None
    behaviours: Sequence[str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    models: Callable[[str], FloatArray] | None = None
    arrived: Sequence[str] | None = None

    def __post_init__(self) -> None:
        rows = len(self.updates)
        for name in ("clients", "num_examples", "behaviours"):
            column = getattr(self, name)
            if column is not None and len(column) != rows:
                raise InvalidInputError(
                    f"{name} must have one entry a row, {rows}, got {len(column)}"
                )
        if len(set(self.clients)) != rows:
            twice = next(c for c in self.clients if list(self.clients).count(c) > 1)
            raise InvalidInputError(f"clients must have different names, got {twice!r} twice")

    def only(self, rows: Sequence[int]) -> "Replies":
        """Return the replies in `rows`, themselves if that is all of them."""
        if len(rows) == len(self.clients):
            return self
        return replace(
            self,
            clients=[self.clients[row] for row in rows],
            updates=self.updates[list(rows)],
            num_examples=[self.num_examples[row] for row in rows],
            signals=self.signals and Signals(self.signals.values[list(rows)], self.signals.levels),
            behaviours=self.behaviours and [self.behaviours[row] for row in rows],
        )

    def in_order(self) -> list[int]:
        """Return the rows in the order in which the replies came."""
        if self.arrived is None:
            return list(range(len(self.clients)))
        rows = {client: row for row, client in enumerate(self.clients)}
        return [rows[client] for client in self.arrived if client in rows]

    def at(self, positions: NDArray[np.int64]) -> "Replies":
        """Return the replies with the parameters at `positions` only."""
        return replace(
            self,
            updates=np.ascontiguousarray(self.updates[:, positions]),
            signals=self.signals
            and Signals(
                np.ascontiguousarray(self.signals.values[:, positions]), self.signals.levels
            ),
        )


def check_size(key: str, value: object) -> float:
    """Return the data size that a client claims under `key`."""
    if value is None:
        raise InvalidInputError(f"metrics must have {key}, got none")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | bool) or not isinstance(value, int | float):
        raise InvalidInputError(f"{key} must be a number, got {value!r}"[:LONGEST_REASON])
    if not math.isfinite(value) or not 0 < value <= _MOST_EXAMPLES:
        raise InvalidInputError(f"{key} must be positive and at most 2^63 - 1, got {value}")
    return float(value)


def clean(text: str, longest: int = LONGEST_REASON) -> str:
    """Return what a client wrote as one short line that can be stored and shown."""
    line = " ".join(text.encode(errors="replace").decode().split())
    return "".join(c for c in line[:longest] if c.isprintable())
