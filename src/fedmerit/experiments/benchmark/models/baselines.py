"""Federations without scores, which are run again only if something that decides them changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch

from fedmerit.experiments.benchmark.models.federation import Cast, Settle, accuracy, federate
from fedmerit.experiments.benchmark.models.task import State, Task
from fedmerit.experiments.fingerprint import Sources
from fedmerit.files import whole_file

_ACCURACY, _MODEL = "accuracy", "model "  # and the name of an array of the last model


@dataclass(frozen=True)
class Finished:
    """A federation after its last round: held-out accuracy, and its model where it was kept."""

    accuracy: float
    model: State


class Baselines:
    """Runs federations of a task and seed, or reads what they came to from `folder`."""

    def __init__(self, task: Task, seed: int, folder: Path | None = None) -> None:
        self.task, self.seed, self._folder = task, seed, folder
        self._data = _data_digest(task)

    def run(
        self,
        cast: Cast,
        settle: Settle,
        clients: Sequence[int] | None = None,
        *,
        with_model: bool = False,
    ) -> Finished:
        """Run a federation of `clients` (default: all) under the server `settle`."""

        def fresh() -> Finished:
            states = federate(self.task, cast, self.seed, settle, clients)
            return Finished(accuracy(self.task, states), states[-1] if with_model else {})

        if self._folder is None:
            return fresh()
        present = tuple(range(len(cast.behaviours)) if clients is None else clients)
        roles = tuple((c, cast.behaviours[c]) for c in present)
        used = [federate, accuracy, settle, *self.task.module.modules(), *(r for _, r in roles)]
        code = Sources.of(*used).code.digest
        inputs = repr((code, self._data, self.seed, roles, with_model))
        return _kept(self._folder / f"{_digest(inputs.encode())}.npz", fresh)


def _kept(path: Path, run: Callable[[], Finished]) -> Finished:
    if path.is_file():
        with np.load(path, allow_pickle=False) as arrays:
            model = {
                name.removeprefix(_MODEL): arrays[name]
                for name in arrays.files
                if name.startswith(_MODEL)
            }
            return Finished(float(arrays[_ACCURACY]), model)
    finished = run()
    arrays = {_MODEL + name: value for name, value in finished.model.items()}
    with whole_file(path) as partial:
        np.savez(partial, allow_pickle=False, **{_ACCURACY: finished.accuracy}, **arrays)
    return finished


def _data_digest(task: Task) -> str:
    """Return what the task is made of: data, first model, settings, and who computes with it."""
    parts = [repr((task.training, task.rounds, torch.__version__, np.__version__)).encode()]
    for data in (*task.clients, task.held_out):
        parts += [repr(data.x.shape).encode(), data.x.tobytes(), data.y.tobytes()]
    for name, value in task.module.state_dict().items():
        parts += [name.encode(), value.numpy().tobytes()]
    return _digest(b"".join(_digest(part).encode() for part in parts))


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]
