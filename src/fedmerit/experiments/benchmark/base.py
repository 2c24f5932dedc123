"""What every benchmark is: cells that give rows, and a page and a picture from the rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from fedmerit.experiments.fingerprint import Sources
from fedmerit.simulation.data.datasets import Dataset

RowT = TypeVar("RowT")
Cell = tuple[object, ...]
Tick = Callable[[str], None]
BEHAVIOURS_MODULE, SCORERS_MODULE = "fedmerit.behaviours.registry", "fedmerit.scorers.registry"


@dataclass(frozen=True)
class Setting:
    """What all cells of a benchmark are run with.

    Attributes
    ----------
    dataset : Dataset
    quick : bool
        Whether a small version will do.
    tick : callable
        Is told how far it is.
    kept : path or None
        Where runs that fedmerit's own code does not decide are kept, so that they need not be run
        again.
    """

    dataset: Dataset
    quick: bool = False
    tick: Tick = lambda _: None
    kept: Path | None = None


@dataclass(frozen=True)
class Table:
    """A small table for people."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def markdown(self) -> str:
        """Return the table as Markdown, floats with three decimals, NaN as a dash."""
        lines = [
            f"| {' | '.join(self.columns)} |",
            "|" + "|".join(["---"] + ["---:"] * (len(self.columns) - 1)) + "|",
            *(f"| {' | '.join(_cell(value) for value in row)} |" for row in self.rows),
        ]
        return "\n".join(lines)


class Results(ABC, Generic[RowT]):
    """One question, and how its answers are shown.

    Attributes
    ----------
    name : str
    first_seed, seeds : int
        The seeds of a full run, fixed before anything was looked at.
    row : type
        Of its rows: a dataclass.
    """

    name: ClassVar[str]
    first_seed: ClassVar[int]
    seeds: ClassVar[int]
    row: ClassVar[type[Any]]

    @property
    @abstractmethod
    def sources(self) -> Sources:
        """Where the code is that decides the rows."""

    def stem(self, dataset: str) -> str:
        """Return what its files are called."""
        del dataset
        return self.name

    def row_code(self, row: RowT) -> str:
        """Return the fingerprint of the code that would decide a row now."""
        del row
        return self.sources.code.digest

    @abstractmethod
    def tables(self, rows: Sequence[RowT]) -> list[Table]:
        """Summarise the rows of all seeds."""

    @abstractmethod
    def page(self, rows: Sequence[RowT]) -> str:
        """Describe settings and results in Markdown, without title and command."""

    @abstractmethod
    def draw(self, rows: Sequence[RowT], figure: Any) -> None:
        """Draw the rows on an empty matplotlib figure."""


class Benchmark(Results[RowT]):
    """A question that is answered seed by seed, on a data set.

    Attributes
    ----------
    datasets : tuple of str
        What it can run on, the default first.
    chosen : tuple
        What it chooses by name from registries.
    """

    datasets: ClassVar[tuple[str, ...]] = ("mnist",)
    chosen: ClassVar[tuple[object, ...]] = ()

    def stem(self, dataset: str) -> str:
        """Return what its files are called; other data than its own have files of their own."""
        return self.name if dataset == self.datasets[0] else f"{self.name}-{dataset}"

    @property
    def sources(self) -> Sources:
        """All that a run calls; how results are shown is apart."""
        kind = type(self)
        room = kind.__module__.rpartition(".")[0]
        return Sources.of(kind, *self.chosen, closed=(f"{room}.page", __name__))

    def row_code(self, row: RowT) -> str:
        """Return the code of the row's cell."""
        return self.cell_sources(self.cell_of(row)).code.digest

    @abstractmethod
    def cells(self, quick: bool) -> Sequence[Cell]:
        """Return what a seed is made of; each cell is run on its own."""

    @abstractmethod
    def cell_of(self, row: RowT) -> Cell:
        """Return the cell that a row belongs to."""

    def cell_sources(self, cell: Cell) -> Sources:
        """Return where the code is that decides the rows of a cell."""
        del cell
        return self.sources

    @abstractmethod
    def steps(self, quick: bool) -> int:
        """Return how often `run_cell` ticks."""

    @abstractmethod
    def run_cell(self, cell: Cell, seed: int, setting: Setting) -> list[RowT]:
        """Run one cell with one seed."""

    def run(self, seed: int, setting: Setting) -> list[RowT]:
        """Run all cells with one seed."""
        return [r for cell in self.cells(setting.quick) for r in self.run_cell(cell, seed, setting)]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "-" if isnan(value) else f"{value:.3f}"
    return str(value)
