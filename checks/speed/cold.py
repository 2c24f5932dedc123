"""The first round on a fresh machine: how much is compiled, and how long that takes.

Each is done by a fresh process with an empty folder for compiled kernels, and again by another one
that finds there what the first has left.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from checks import ROOT
from checks.speed.timing import Part
from fedmerit.server.warm_up import KINDS, steps

_FIRST = {
    "a first score": [f"a round that you have, {KINDS[0]}"],
    "first rounds of a server": [f"rounds of a server, {KINDS[0]}"],
    "all scorers and rules, both types of numbers": list(steps(everything=True)),
}
_CODE = """
import time
from fedmerit.kernels.compiling import told
from fedmerit.server.warm_up import steps
todo, kernels = steps(everything=True), []
with told(kernels.append):
    for name in {names!r}:
        todo[name]()
print("spent", len(kernels), time.process_time())
"""


@dataclass(frozen=True)
class Spent:
    """What a process took from its start to its end."""

    kernels: int
    processor: float
    wall: float


def spend(names: list[str], folder: str) -> Spent:
    """Run the named steps of warming up in a fresh process that keeps its kernels in `folder`."""
    begin = time.perf_counter()
    output = subprocess.run(
        [sys.executable, "-c", _CODE.format(names=names)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"NUMBA_CACHE_DIR": folder},
    ).stdout
    found = re.search(r"^spent (\d+) (\S+)$", output, re.M)
    assert found is not None, output
    return Spent(int(found.group(1)), float(found.group(2)), time.perf_counter() - begin)


def measure() -> Part:
    """Return this part of the report."""
    with tempfile.TemporaryDirectory() as folder:
        imports = statistics.median(spend([], folder).processor for _ in range(3))
    rows, ratios = [], {}
    for label, names in _FIRST.items():
        with tempfile.TemporaryDirectory() as folder:
            first, again = spend(names, folder), spend(names, folder)
        assert again.kernels == 0, f"{again.kernels} kernels were not kept"
        rows.append(
            f"| {label} | {first.kernels} | {first.processor:.1f} | {first.wall:.1f} "
            f"| {again.processor:.1f} |"
        )
        ratios[f"cold, {label} / import"] = first.processor / imports
    return Part(
        [
            "## The first round on a fresh machine",
            "",
            "A fresh process with an empty folder for compiled kernels, from its start to its end;",
            f"the import alone takes {imports:.1f} s of the processor. `fedmerit warm-up` does the",
            f"same ahead. Measured at a load of {os.getloadavg()[0]:.1f}.",
            "",
            "| what | kernels compiled | processor seconds | wall clock | again, from disk |",
            "|---|---:|---:|---:|---:|",
            *rows,
        ],
        ratios,
    )


if __name__ == "__main__":
    print("\n".join(measure().lines))
