"""Who decides the rows of a table in docs/results, by the table's name."""

from collections.abc import Callable

from checks.studies.panel.cells import SOURCES as PANEL
from fedmerit.experiments.assumptions import SOURCES as ASSUMPTIONS
from fedmerit.experiments.benchmark.base import Results
from fedmerit.experiments.benchmark.files import read_row
from fedmerit.experiments.benchmark.registry import BENCHMARKS
from fedmerit.experiments.families import FAMILIES
from fedmerit.experiments.runner import Cell, sources_of
from fedmerit.experiments.spec import Experiment

Expected = Callable[[dict[str, str]], str | None]
# Tables with the lines and points of another experiment.
_AS = {"mnist-without-riders": "mnist-free-riders"}
_EXPERIMENTS = {e.name: e for family in FAMILIES.values() for e in family}


def expected_code(name: str) -> Expected:
    """Return what tells the fingerprint that a row would have now; None where nothing makes it.

    A table is named after its benchmark or experiment, and the data set where that is not MNIST.
    """
    if name.startswith("assumptions"):
        return lambda _: ASSUMPTIONS.code.digest
    if name.startswith("panel-"):
        return lambda _: PANEL.code.digest
    known = {**BENCHMARKS, **_EXPERIMENTS}
    wanted = _AS.get(name, name)
    found = max(
        (k for k in known if wanted == k or wanted.startswith(f"{k}-")), key=len, default=""
    )
    if found in BENCHMARKS:
        return _of_benchmark(BENCHMARKS[found]())
    if found in _EXPERIMENTS:
        return _of_experiment(_EXPERIMENTS[found])
    return lambda _: None


def _of_benchmark(benchmark: Results) -> Expected:
    return lambda row: benchmark.row_code(read_row(benchmark.row, row))


def _of_experiment(experiment: Experiment) -> Expected:
    lines = {line.name: line for line in experiment.lines}
    points = {point.value: point for point in experiment.points}

    def code(row: dict[str, str]) -> str | None:
        line, point = lines.get(row["line"]), points.get(float(row["value"]))
        if line is None or point is None:
            return None
        return sources_of(Cell(line, point, int(row["seed"]))).code.digest

    return code
