"""Benchmarks by name."""

from typing import Any

from fedmerit.errors import UnknownNameError
from fedmerit.experiments.benchmark.attacks.benchmark import Attacks
from fedmerit.experiments.benchmark.base import Results
from fedmerit.experiments.benchmark.contribution.benchmark import Contribution
from fedmerit.experiments.benchmark.free_riders.benchmark import FreeRiders
from fedmerit.experiments.benchmark.models.benchmark import Models
from fedmerit.experiments.benchmark.null.benchmark import Null

BENCHMARKS: dict[str, type[Results[Any]]] = {
    kind.name: kind for kind in (Attacks, Contribution, FreeRiders, Models, Null)
}


def find_benchmark(name: str) -> Results[Any]:
    """Return the benchmark called `name`."""
    if name not in BENCHMARKS:
        raise UnknownNameError.of("benchmark", name, BENCHMARKS)
    return BENCHMARKS[name]()
