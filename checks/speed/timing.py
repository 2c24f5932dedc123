"""Timing on a noisy machine: everything in one process, taken in turns, medians compared."""

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from checks import ROOT

_LONG = 3.0  # seconds


@dataclass(frozen=True)
class Part:
    """A part of the report: its lines, and its ratios by name. Of all ratios, less is better."""

    lines: Sequence[str]
    ratios: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """What a statement takes in a fresh process, and what it printed."""

    seconds: float
    extra_bytes: int
    output: str = ""


def medians(
    functions: Mapping[str, Callable[[], object]],
    repeats: int = 9,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each function; one warm-up, then all of them in turns.

    With ``time.process_time`` as clock, seconds are those of the processor, summed over threads:
    more than the wall clock's for parallel code, but hardly touched by what else is running.
    """
    for function in functions.values():
        function()
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            begin = clock()
            function()
            samples[name].append(clock() - begin)
    return {name: statistics.median(values) for name, values in samples.items()}


def peak_extra_bytes(setup: str, statement: str) -> int:
    """Return by how much `statement` raises the peak memory of a fresh process after `setup`."""
    return cost(setup, statement, repeats=0).extra_bytes


def cost(setup: str, statement: str, repeats: int = 3) -> Cost:
    """Run `statement` in a fresh process after `setup`: its extra memory, then its median time.

    It is repeated until that has taken some seconds.
    """
    code = f"""
import statistics, time
from pathlib import Path
def status(key):
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(key))
    return int(line.split()[1]) * 1024
{setup}
Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
before = status("VmRSS")
begin = time.perf_counter()
{statement}
seconds = [time.perf_counter() - begin]
extra = status("VmHWM") - before
for _ in range({repeats}):
    if sum(seconds) > {_LONG}:
        break
    begin = time.perf_counter()
    {statement}
    seconds.append(time.perf_counter() - begin)
print("cost", extra, statistics.median(seconds[1:] or seconds))
"""
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout
    found = re.search(r"^cost (\d+) (\S+)$", output, re.M)
    assert found is not None, output
    return Cost(float(found.group(2)), int(found.group(1)), output)


def available_bytes() -> int:
    """Return how much memory could be taken now."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    assert found is not None
    return int(found.group(1)) * 1024


def machine() -> str:
    """Say what this run had to work with; speeds are only comparable inside one run."""
    load = os.getloadavg()[1]
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    python = sys.version.split()[0]
    return f"{os.cpu_count()} cores (load {load:.1f}), Python {python}, {versions}"
