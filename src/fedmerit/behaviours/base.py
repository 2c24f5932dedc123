"""What a client can see, what it reports, and what every behaviour has in common."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class LocalData:
    """The samples a client trains on: inputs ``x`` (n, ...) and labels ``y`` (n,).

    Where inputs are indices and not measurements, ``sizes`` says how many values each column has.
    """

    x: NDArray[Any]
    y: NDArray[np.int64]
    sizes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ClientView:
    """All that one client knows when it writes its report.

    Attributes
    ----------
    round, client : int
        Round (from 1) and the client's own number.
    global_model : (d,) float32
        The model the server sent out, w_t.
    global_updates : tuple of (d,) float32
        The latest public updates ``w_s - w_(s-1)``, newest first; empty in round 1.
    update_norms : tuple of float
        Norms of all public updates so far, oldest first.
    honest_update : (d,) float32 or None
        What local training gave; None for behaviours that do not train.
    group_update : (d,) float32 or None
        What local training gave the first of the round's clients with this behaviour; None unless
        the behaviour `shares` it.
    num_examples : int
        Size of the client's own data.
    participants : int
        How many clients take part in the round, which the server announces.
    rng : Generator
        The client's own stream of this round.
    group_rng : Generator
        A stream that starts the same for all clients of one behaviour: what colluders share.
    own_reports : tuple of (d,) float32
        The client's own first reports, oldest first, as many as its behaviour `remembers`.
    """

    round: int
    client: int
    global_model: Vector
    global_updates: tuple[Vector, ...]
    update_norms: tuple[float, ...]
    honest_update: Vector | None
    group_update: Vector | None
    num_examples: int
    participants: int
    rng: np.random.Generator
    group_rng: np.random.Generator
    own_reports: tuple[Vector, ...] = ()

    @property
    def trained(self) -> Vector:
        """The honest update of a behaviour that trains."""
        if self.honest_update is None:
            raise RuntimeError(f"client {self.client} did not train, so it has no honest update")
        return self.honest_update

    @property
    def last_update(self) -> Vector:
        """The last global update, g; zeros in round 1, when there is none."""
        return self.global_updates[0] if self.global_updates else np.zeros_like(self.global_model)


@dataclass(frozen=True)
class Report:
    """What the server receives: an update (d,) and the claimed number of samples."""

    update: Vector
    num_examples: int


@dataclass(frozen=True)
class Behaviour(ABC):
    """One way to take part. Subclasses are frozen dataclasses whose fields are their settings.

    ``trains`` says whether the client pays for local training; without it ``honest_update`` is
    None. ``shares`` says whether clients of this behaviour show each other what training gave. A
    behaviour that cheats with its data overrides `local_data` and reports honestly.
    """

    name: ClassVar[str]
    trains: ClassVar[bool] = True
    shares: ClassVar[bool] = False

    def local_data(self, data: LocalData, rng: np.random.Generator) -> LocalData:
        """Return the data to train on; `rng` yields the same in every round."""
        del rng
        return data

    @property
    def remembers(self) -> int:
        """How many of its own first reports the client keeps."""
        return 0

    def account(self, client: int, number: int) -> str:
        """Return the name under which the client takes part in a round."""
        del number
        return str(client)

    @abstractmethod
    def report(self, view: ClientView) -> Report:
        """Write the report of one round."""

    @property
    def label(self) -> str:
        """The name with its settings, as an assignment spells it: ``noise:0.01``."""
        values: list[Any] = [getattr(self, field.name) for field in fields(self)]
        return ":".join([self.name, *(f"{value:g}" for value in values)])


def gaussian(rng: np.random.Generator, size: int, sd: float) -> Vector:
    """Draw float32 noise with standard deviation `sd`."""
    return rng.standard_normal(size, dtype=np.float32) * np.float32(sd)
