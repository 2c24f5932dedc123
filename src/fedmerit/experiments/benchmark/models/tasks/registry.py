"""Tasks by name.

===================  =====================================================================
name                 what is federated
===================  =====================================================================
``batch-norm``       CNN with batch normalisation, label skew, 20 clients
``din``              recommender with embeddings and attention, 14 users of a click log
``identical``        MLP with 6,634 parameters, twelve clients that are alike
``logistic-31``      logistic regression, two classes, one logit, 6 clients
``logistic-62``      the same with two logits
``logistic-wine``    logistic regression with 42 parameters, three classes, 6 clients
``logistic-digits``  logistic regression with 650 parameters, ten classes, 6 clients
``lora``             low-rank adapters on a frozen network, 10 clients
``mlp-cancer``       small MLP on a table, label skew, 8 clients
``mlp-digits``       small MLP on digits, label skew, 10 clients
``residual``         residual network, label skew, 10 clients
``transformer``      character transformer, 13 authors
``unequal``          MLP, twelve clients with very unequal amounts of the same data
``vision``           vision transformer, label skew, 10 clients
===================  =====================================================================
"""

from pathlib import Path

from fedmerit.errors import UnknownNameError
from fedmerit.experiments.benchmark.models.tasks import images
from fedmerit.experiments.benchmark.models.tasks.clicks import din
from fedmerit.experiments.benchmark.models.tasks.lora import lora
from fedmerit.experiments.benchmark.models.tasks.tables import TABLES
from fedmerit.experiments.benchmark.models.tasks.task import MakeTask, Task
from fedmerit.experiments.benchmark.models.tasks.text import transformer

TASKS: dict[str, MakeTask] = {
    "batch-norm": images.batch_norm,
    "transformer": transformer,
    "lora": lora,
    "din": din,
    **TABLES,
    "unequal": images.unequal,
    "identical": images.identical,
    "residual": images.residual,
    "vision": images.vision,
}


def make_task(name: str, seed: int, *, quick: bool, folder: Path | None = None) -> Task:
    """Return the task called `name` with the data and the first model that `seed` draws."""
    if name not in TASKS:
        raise UnknownNameError.of("task", name, TASKS)
    return TASKS[name](seed, quick, folder)
