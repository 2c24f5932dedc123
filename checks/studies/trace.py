"""How far a reader has to go to follow one settled round: ``python -m checks.studies.trace``.

Eight clients, the default rules and a reward, the third round, so that there is a history; no
ledger, no seed. Every call of a function of the package is noted, in order:

files      in which a function is called
functions  that are called, comprehensions and lambdas among them
hops       from a call to the next one that lies in another file, the way back not counted

Kernels are compiled and call nothing: they are counted apart, and a hop to one is no hop.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import fedmerit

CLIENTS, PARAMETERS, ROUNDS = 8, 2000, 3
PACKAGE = Path(fedmerit.__file__).parent


@dataclass(frozen=True)
class Trace:
    """The calls of a round in order: file and function each."""

    calls: tuple[tuple[str, str], ...]

    @property
    def files(self) -> list[str]:
        """In which something is called."""
        return sorted({file for file, _ in self.calls})

    @property
    def functions(self) -> int:
        """How many are called."""
        return len(set(self.calls))

    @property
    def hops(self) -> int:
        """How often the next call lies in another file."""
        return sum(before != after for (before, _), (after, _) in pairwise(self.calls))

    def without_kernels(self) -> "Trace":
        """Return the calls of what is not compiled."""
        return Trace(tuple(call for call in self.calls if not call[0].startswith("kernels/")))


def trace(action: Callable[[], Any], package: Path = PACKAGE) -> Trace:
    """Return the calls of the package's functions that `action` makes."""
    calls: list[tuple[str, str]] = []
    root = f"{package}/"

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            calls.append((code.co_filename.removeprefix(root), code.co_qualname))

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return Trace(tuple(calls))


def updates(rng: np.random.Generator) -> dict[str, Any]:
    """Honest work: a shared direction, and something of one's own."""
    shared = rng.normal(size=PARAMETERS)
    own = rng.normal(size=(CLIENTS, PARAMETERS))
    return {f"client {n}": (0.01 * (shared + row)).astype("f4") for n, row in enumerate(own)}


def settled_round() -> Trace:
    """Return the trace of the last of a few rounds."""
    rng = np.random.default_rng(0)
    with fedmerit.Server(np.zeros(PARAMETERS, "f4"), reward="positive:budget=1000") as server:
        for _ in range(ROUNDS - 1):
            server.settle(updates=updates(rng))
        sent = updates(rng)
        sizes = dict.fromkeys(sent, 100)
        return trace(lambda: server.settle(updates=sent, sizes=sizes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", action="store_true", help="print every call, file by file")
    found = settled_round()
    if parser.parse_args().calls:
        before = ""
        for file, function in found.calls:
            if file != before:
                print(f"{file}")
            print(f"    {function}")
            before = file
    plain = found.without_kernels()
    for name, part in (("without kernels", plain), ("with kernels", found)):
        print(f"{name}: {len(part.files)} files, {part.functions} functions, {part.hops} hops")


if __name__ == "__main__":
    main()
