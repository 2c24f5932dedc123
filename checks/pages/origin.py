"""Who decides the rows of a table in docs/results, by the table's name."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from checks.studies.fedce import SOURCES as FEDCE
from checks.studies.lies_of_tasks import SOURCES as LIES
from checks.studies.odd_federations import SOURCES as ODD
from checks.studies.panel.cells import SOURCES as PANEL
from checks.studies.sizes import SOURCES as CLAIMED
from checks.studies.thresholds import SOURCES as THRESHOLDS
from fedmerit.experiments.assumptions import SOURCES as ASSUMPTIONS
from fedmerit.experiments.benchmark.base import Results
from fedmerit.experiments.benchmark.files import read_row
from fedmerit.experiments.benchmark.registry import BENCHMARKS
from fedmerit.experiments.families import FAMILIES
from fedmerit.experiments.runner import Cell, sources_of
from fedmerit.experiments.spec import Experiment

T = TypeVar("T")
Expected = Callable[[dict[str, str]], str | None]
# Tables with the lines and points of another experiment.
_AS = {"mnist-without-riders": "mnist-free-riders"}
_EXPERIMENTS = {e.name: e for family in FAMILIES.values() for e in family}


_STUDIES = {
    "sizes": CLAIMED,
    "fedce": FEDCE,
    "lies-of-tasks": LIES,
    "odd-federations": ODD,
    "thresholds": THRESHOLDS,
}


def expected_code(name: str) -> Expected:
    """Return what tells the fingerprint that a row would have now; None where nothing makes it.

    A table is named after its benchmark or experiment, and the data set where that is not MNIST.
    """
    if name.startswith("assumptions"):
        return lambda _: ASSUMPTIONS.code.digest
    if name.startswith("panel-"):
        return lambda _: PANEL.code.digest
    if name in _STUDIES:
        return lambda _: _STUDIES[name].code.digest
    experiment, benchmark = experiment_of(name), _named(name, BENCHMARKS)
    if experiment is not None:
        return _of_experiment(experiment)
    if benchmark is not None:
        return _of_benchmark(benchmark())
    return lambda _: None


def experiment_of(name: str) -> Experiment | None:
    """Return the experiment that a table is named after."""
    return _named(_AS.get(name, name), _EXPERIMENTS)


def cell_of(experiment: Experiment, line: str, value: float, seed: int) -> Cell | None:
    """Return the run of a row; None where the experiment has no such line or point any more."""
    lines = [known for known in experiment.lines if known.name == line]
    points = [known for known in experiment.points if known.value == value]
    return Cell(lines[0], points[0], seed) if lines and points else None


def _named(name: str, known: Mapping[str, T]) -> T | None:
    found = [key for key in known if name == key or name.startswith(f"{key}-")]
    return known[max(found, key=len)] if found else None


def _of_benchmark(benchmark: Results) -> Expected:
    return lambda row: benchmark.row_code(read_row(benchmark.row, row))


def _of_experiment(experiment: Experiment) -> Expected:
    def code(row: dict[str, str]) -> str | None:
        cell = cell_of(experiment, row["line"], float(row["value"]), int(row["seed"]))
        return None if cell is None else sources_of(cell).code.digest

    return code
