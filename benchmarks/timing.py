"""Timing on a noisy machine: everything in one process, taken in turns, medians compared."""

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent


def medians(functions: Mapping[str, Callable[[], object]], repeats: int = 9) -> dict[str, float]:
    """Return the median seconds of each function; one warm-up, then all of them in turns."""
    for function in functions.values():
        function()
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            begin = time.perf_counter()
            function()
            samples[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in samples.items()}


def peak_extra_bytes(setup: str, statement: str) -> int:
    """Return by how much `statement` raises the peak memory of a fresh process after `setup`."""
    code = f"""
from pathlib import Path
def status(key):
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(key))
    return int(line.split()[1]) * 1024
{setup}
Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
before = status("VmRSS")
{statement}
print("extra", status("VmHWM") - before)
"""
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout
    found = re.search(r"^extra (\d+)$", output, re.M)
    assert found is not None, output
    return int(found.group(1))


def machine() -> str:
    """Say what this run had to work with; speeds are only comparable inside one run."""
    return f"{os.cpu_count()} cores, Python {sys.version.split()[0]}"
