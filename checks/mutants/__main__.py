"""Try a random sample of mutants: ``python -m checks.mutants [--each 80] [--seed 0]``.

A mutant is the code with one operator, number or condition changed (by the operators of cosmic-ray,
which is no dependency of the project: install it beside the others to use this). It is killed when
a test of its package fails. Outcomes go to build/mutants.csv, survivors with the line they change:
whether a survivor shows a missing test or means the same as the code is for a person to say. A run
that was stopped goes on where it was: what the file has is not tried again. With ``--survivors``
only those are that survived, to see whether new tests kill them.

Tests run on a copy of the project, so that others may go on working on it. Not mutated: annotations
and docstrings. Not used: tests of more than about two seconds, which a hundred survivors would each
have to wait for.
"""

import argparse
import ast
import csv
import importlib
import itertools
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from checks import ROOT

PACKAGES = {
    "scorers": ("tests/scorers", "tests/test_public_functions.py"),
    "incentive": ("tests/incentive",),
    "ledger": ("tests/ledger",),
    "evidence": ("tests/evidence", "tests/scorers/test_public_information.py"),
}
SLOW = (
    "tests/ledger/test_storage.py::test_no_second_writer_by_any_name_nor_when_the_note_is_gone",
    "tests/ledger/test_verification.py::test_every_forged_cell_is_found",
    "tests/incentive/test_truthfulness.py::test_no_deterministic_map_beats_the_certificate",
    "tests/ledger/test_crash.py",
    "tests/ledger/test_verification.py::test_a_flipped_byte_of_the_file_is_found_or_touches_no_content",
    "tests/scorers/test_laws.py::test_mean_of_published_runs_is_the_exact_expectation",
    "tests/incentive/test_audit.py::test_no_covered_lie_gains_more_than_the_certificate",
    "tests/incentive/test_real_signals.py",
    "tests/scorers/test_public_information.py::test_p_values_are_valid_for_independent_reports",
)
# A mutant that takes longer loops, or waits for ever: that is noticed, too.
PROCESSOR_SECONDS = 30
SECONDS = 300
HEAVY = ("numpy", "numba", "scipy.stats", "pytest", "cryptography")
_TESTS_FAILED = 2  # 1: a test failed; 2: a file of tests could not be imported
_BROKEN = 99
_COLUMNS = ("file", "line", "operator", "occurrence", "outcome", "change")
Place = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """One change: the `occurrence`-th place where `operator` fits the file, below `folder`."""

    folder: Path
    path: str
    operator: str
    occurrence: int
    line: int

    @property
    def package(self) -> str:
        """The package whose tests must notice."""
        return Path(self.path).parts[2]

    def code(self) -> str:
        """Return the changed file."""
        operator = cosmic_ray.plugins.get_operator(self.operator)()
        before = (self.folder / self.path).read_text()
        changed: str = mutate_code(before, operator, self.occurrence)
        return changed

    def change(self) -> str:
        """Return the line as it is and as it becomes."""
        before, after = (self.folder / self.path).read_text().split("\n"), self.code().split("\n")
        for old, new in zip(before, after, strict=False):
            if old != new:
                return f"{old.strip()} -> {new.strip()}"
        return "lines were removed"

    def row(self, outcome: str) -> tuple[str, ...]:
        """Return the line of the log."""
        place = (self.path, str(self.line), self.operator.removeprefix("core/"))
        return (*place, str(self.occurrence), outcome, self.change())


def mutants(folder: Path, package: str, without: Collection[str] = ()) -> Iterator[Mutant]:
    """Yield every mutant of a package, apart from those of files that are left out."""
    names = cosmic_ray.plugins.operator_names()
    kinds = {name: cosmic_ray.plugins.get_operator(name) for name in names}
    for path in sorted((folder / "src" / "fedmerit" / package).rglob("*.py")):
        if path.name in without:
            continue
        source = path.read_text()
        tree, skipped = get_ast(source), _without_effect(source)
        for name, kind in kinds.items():
            if kind.arguments():
                continue
            operator, places = kind(), []
            for node in ast_nodes(tree):
                places += [start for start, _ in operator.mutation_positions(node)]
            for occurrence, start in enumerate(places):
                if not any(first <= start < last for first, last in skipped):
                    yield Mutant(folder, str(path.relative_to(folder)), name, occurrence, start[0])


def _without_effect(source: str) -> list[tuple[Place, Place]]:
    """Return where annotations stand."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            found.append(node.returns)
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        for node in found
    ]


def killed(mutant: Mutant) -> bool:
    """Say whether a test of the mutant's package fails."""
    target = mutant.folder / mutant.path
    original, changed = target.read_text(), mutant.code()
    target.write_text(changed)
    try:
        return _fails(mutant.folder, mutant.package, Path(mutant.path).name)
    finally:
        target.write_text(original)


def _fails(folder: Path, package: str, file: str = "") -> bool:
    """Run a package's tests, those named after `file` first; say whether one failed."""
    child = os.fork()
    if child == 0:  # never back into the code that cleans up after the tests
        try:
            _test(folder, package, file)
        except BaseException:
            traceback.print_exc()
            os._exit(_BROKEN)
    status = _outcome(child)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) > _TESTS_FAILED:
        raise RuntimeError(f"the tests of {package} could not be started")
    return status != 0


def _test(folder: Path, package: str, file: str) -> None:
    """Run pytest in a forked process, which has loaded everything but the project."""
    os.setsid()
    if file:  # without a mutant this is the first run, in which everything is compiled
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    os.chdir(folder)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.path[:0] = [str(folder / "src"), str(folder)]
    sys.dont_write_bytecode = True
    import pytest

    own = Path("tests") / package / f"test_{file}"
    nearest = [str(own)] if own.is_file() else []
    options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    options += [f"--deselect={name}" for name in SLOW]
    os._exit(int(pytest.main([*options, *nearest, *PACKAGES[package]])))


def _outcome(child: int) -> int:
    def late(_signal: int, _frame: FrameType | None) -> None:
        os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    return status


def _known(log: Path) -> dict[tuple[str, ...], str]:
    """Return the outcomes in the log; the last word on a mutant counts."""
    if not log.exists():
        return {}
    with log.open(newline="") as file:
        return {_identity(row): row[4] for row in csv.reader(file)}


def _identity(row: Sequence[str]) -> tuple[str, ...]:
    file, _line, operator, occurrence, _outcome, change = row
    return file, operator, occurrence, change


def draw(folder: Path, each: int, seed: int, without: Collection[str]) -> tuple[list[Mutant], int]:
    """Return `each` mutants of every package, packages in turn, and how many there are."""
    everything = [list(mutants(folder, package, without)) for package in PACKAGES]
    drawn = [random.Random(seed).sample(some, min(each, len(some))) for some in everything]
    mixed = [mutant for turn in itertools.zip_longest(*drawn) for mutant in turn if mutant]
    return mixed, sum(map(len, everything))


def main() -> int:
    """Try the mutants that were asked for; return how many survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=80, help="mutants of every package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", nargs="*", default=[], help="names of files left out")
    parser.add_argument(
        "--survivors", action="store_true", help="try survivors again, and nothing else"
    )
    wanted = parser.parse_args()
    for name in HEAVY:
        importlib.import_module(name)
    log = ROOT / "build" / "mutants.csv"
    log.parent.mkdir(exist_ok=True)
    known = _known(log)
    survived, start = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, log.open("a", newline="") as file:
        folder = Path(scratch)
        for name in ("src", "tests", "checks", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        for package in PACKAGES:
            if _fails(folder, package):
                raise RuntimeError(f"the tests of {package} must pass before anything is changed")
        chosen, total = draw(folder, wanted.each, wanted.seed, wanted.without)
        table = csv.writer(file)
        if not known:
            table.writerow(_COLUMNS)
        for number, mutant in enumerate(chosen, start=1):
            before = known.get(_identity(mutant.row("")), "")
            if before != ("survived" if wanted.survivors else ""):
                continue
            row = mutant.row("killed" if killed(mutant) else "survived")
            survived += "survived" in row
            table.writerow(row)
            file.flush()
            minutes = (time.monotonic() - start) / 60
            print(
                f"{number} of {len(chosen)} (there are {total}): {survived} survived, "
                f"{minutes:.0f} min; {row[4]} {mutant.path}:{mutant.line} {row[5]}",
                flush=True,
            )
    return survived


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
