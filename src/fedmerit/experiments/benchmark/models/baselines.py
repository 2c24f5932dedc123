"""Federations without scores, which are run again only if something that decides them changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from numpy.typing import ArrayLike

from fedmerit.experiments.benchmark.models.federation import Cast, Settle, accuracy, federate
from fedmerit.experiments.benchmark.models.tasks.task import State, Task
from fedmerit.experiments.fingerprint import Sources
from fedmerit.experiments.kept import LIBRARIES, digest, kept

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

        def fresh() -> dict[str, ArrayLike]:
            states = federate(self.task, cast, self.seed, settle, clients)
            last = states[-1] if with_model else {}
            arrays = {_MODEL + name: value for name, value in last.items()}
            return {_ACCURACY: accuracy(self.task, states), **arrays}

        present = tuple(range(len(cast.behaviours)) if clients is None else clients)
        roles = tuple((c, cast.behaviours[c]) for c in present)
        used = [federate, accuracy, settle, *self.task.module.modules(), *(r for _, r in roles)]
        code = Sources.of(*used).code.digest
        inputs = repr((code, self._data, self.seed, roles, with_model))
        arrays = dict(kept(self._folder, inputs, fresh))
        return Finished(
            float(arrays.pop(_ACCURACY)),
            {name.removeprefix(_MODEL): value for name, value in arrays.items()},
        )


def _data_digest(task: Task) -> str:
    """Return what the task is made of: data, first model, settings, and who computes with it."""
    parts = [repr((task.training, task.rounds, *LIBRARIES)).encode()]
    for data in (*task.clients, task.held_out):
        parts += [repr(data.x.shape).encode(), data.x.tobytes(), data.y.tobytes()]
    for name, value in task.module.state_dict().items():
        parts += [name.encode(), value.numpy().tobytes()]
    return digest(b"".join(digest(part).encode() for part in parts))
