"""What a federation of the models benchmark is made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import nn

from fedmerit.behaviours import LocalData
from fedmerit.errors import SettingError

# Arrays by name, as a module has them.
State = dict[str, NDArray[Any]]
StateLike = Mapping[str, NDArray[Any]]
# From a seed, whether a small version will do, and a folder with data, to a task.
MakeTask = Callable[[int, bool, Path | None], "Task"]


@dataclass(frozen=True)
class Training:
    """How every client trains.

    Attributes
    ----------
    optimiser : "sgd" or "adam"
    rate, momentum : float
        Momentum is that of SGD.
    batch, epochs : int
        Samples per step, and passes over the client's data in one round.
    """

    optimiser: str = "sgd"
    rate: float = 0.1
    momentum: float = 0.0
    batch: int = 32
    epochs: int = 1

    def __post_init__(self) -> None:
        if self.optimiser not in ("sgd", "adam"):
            raise SettingError(f"optimiser must be sgd or adam, got {self.optimiser}")


@dataclass(frozen=True, eq=False)
class Task:
    """A model, who holds which data, and how it is trained.

    Attributes
    ----------
    name : str
    about : str
        One line for the page: the model, the data, how it is split.
    module : nn.Module
        The model before the first round; never trained itself. What does not require a gradient is
        frozen and not sent. It draws nothing (no dropout), so that runs can be paired.
    clients : tuple of LocalData
        Inputs (n, ...) and labels (n,), or (n, length) where every place of a text is predicted.
    held_out : LocalData
        Nobody trains on it; accuracy is measured there.
    classes : int
    training : Training
    rounds : int
    """

    name: str
    about: str
    module: nn.Module
    clients: tuple[LocalData, ...]
    held_out: LocalData
    classes: int
    training: Training
    rounds: int = 10

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many samples each client holds."""
        return tuple(len(data.y) for data in self.clients)


def take(data: LocalData, indices: NDArray[Any]) -> LocalData:
    """Return some of the samples."""
    return LocalData(data.x[indices], data.y[indices], data.sizes)
