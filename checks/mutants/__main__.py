"""Try a random sample of mutants: ``python -m checks.mutants [how many] [seed]``.

A mutant is the code with one operator, number or condition changed (by the operators of cosmic-ray,
which is no dependency of the project: install it beside the others to use this). It is killed when
a test of its package fails. Outcomes go to build/mutants.csv, survivors with the line they change:
whether a survivor shows a missing test or means the same as the code is for a person to say.

Not mutated: annotations and docstrings. Not used: tests of more than about two seconds, which a
hundred survivors would each have to wait for.
"""

import ast
import csv
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
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
}
SLOW = (
    "tests/ledger/test_crash.py",
    "tests/ledger/test_verification.py::test_a_flipped_byte_of_the_file_is_found_or_touches_no_content",
    "tests/scorers/test_laws.py::test_mean_of_published_runs_is_the_exact_expectation",
    "tests/incentive/test_audit.py::test_no_covered_lie_gains_more_than_the_certificate",
    "tests/incentive/test_real_signals.py",
    "tests/scorers/test_public_information.py::test_p_values_are_valid_for_independent_reports",
)
SECONDS = 120  # a mutant that takes longer loops: that is noticed, too
HEAVY = ("numpy", "numba", "scipy.stats", "pytest", "cryptography")
_TESTS_FAILED = 2  # 1: a test failed; 2: a file of tests could not be imported
_BROKEN = 99
Place = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """One change: the `occurrence`-th place where `operator` fits the file."""

    path: Path
    operator: str
    occurrence: int
    line: int

    def code(self) -> str:
        """Return the changed file."""
        operator = cosmic_ray.plugins.get_operator(self.operator)()
        changed: str = mutate_code((ROOT / self.path).read_text(), operator, self.occurrence)
        return changed

    def change(self) -> str:
        """Return the line as it is and as it becomes."""
        before, after = (ROOT / self.path).read_text().split("\n"), self.code().split("\n")
        for old, new in zip(before, after, strict=False):
            if old != new:
                return f"{old.strip()} -> {new.strip()}"
        return "lines were removed"


def mutants() -> Iterator[Mutant]:
    """Yield every mutant of the packages."""
    names = cosmic_ray.plugins.operator_names()
    kinds = {name: cosmic_ray.plugins.get_operator(name) for name in names}
    for package in PACKAGES:
        for path in sorted((ROOT / "src" / "fedmerit" / package).rglob("*.py")):
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
                        yield Mutant(path.relative_to(ROOT), name, occurrence, start[0])


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


def killed(mutant: Mutant, folder: Path) -> bool:
    """Run the tests of the mutant's package on a copy of the project; say whether one failed."""
    target = folder / mutant.path
    original = target.read_text()
    target.write_text(mutant.code())
    try:
        child = os.fork()
        if child == 0:  # never back into the code that cleans up after the tests
            try:
                _test(mutant, folder)
            except BaseException:
                traceback.print_exc()
                os._exit(_BROKEN)
        status = _outcome(child)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) > _TESTS_FAILED:
            raise RuntimeError(f"the tests of {mutant.path} could not be started")
        return status != 0
    finally:
        target.write_text(original)


def _test(mutant: Mutant, folder: Path) -> None:
    """Run pytest in a forked process, which has loaded everything but the project."""
    os.setsid()
    os.chdir(folder)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.path[:0] = [str(folder / "src"), str(folder)]
    sys.dont_write_bytecode = True
    import pytest

    package = mutant.path.parts[2]
    options = ["-x", "-q", "-p", "no:cacheprovider", *(f"--deselect={name}" for name in SLOW)]
    os._exit(int(pytest.main([*options, *PACKAGES[package]])))


def _outcome(child: int) -> int:
    def late(_signal: int, _frame: FrameType | None) -> None:
        os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    return status


def main(wanted: int = 200, seed: int = 0) -> int:
    """Try `wanted` mutants; return how many survived."""
    everything = list(mutants())
    chosen = random.Random(seed).sample(everything, min(wanted, len(everything)))
    for name in HEAVY:
        importlib.import_module(name)
    log = ROOT / "build" / "mutants.csv"
    log.parent.mkdir(exist_ok=True)
    survivors, start = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, log.open("w", newline="") as file:
        folder = Path(scratch)
        for name in ("src", "tests", "checks", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        table = csv.writer(file)
        table.writerow(("file", "line", "operator", "outcome", "change"))
        for number, mutant in enumerate(chosen, start=1):
            outcome = "killed" if killed(mutant, folder) else "survived"
            survivors += outcome == "survived"
            operator = mutant.operator.removeprefix("core/")
            table.writerow((mutant.path, mutant.line, operator, outcome, mutant.change()))
            file.flush()
            minutes = (time.monotonic() - start) / 60
            print(
                f"{number} of {len(chosen)} (there are {len(everything)}): {survivors} survived, "
                f"{minutes:.0f} min; {outcome} {mutant.path}:{mutant.line} {mutant.change()}",
                flush=True,
            )
    return survivors


if __name__ == "__main__":
    sys.exit(1 if main(*(int(text) for text in sys.argv[1:3])) else 0)
