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
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import fedmerit
from fedmerit.scorers import Merit
from fedmerit.types import Contributions, RoundInputs, Scorer, needs_of

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
        return self.pairs.total()

    @property
    def pairs(self) -> Counter[tuple[str, str]]:
        """How often each file is followed by each other one."""
        places = [file for file, _ in self.calls]
        return Counter(pair for pair in pairwise(places) if pair[0] != pair[1])

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


class Watched:
    """A scorer whose newest round is traced."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.needs = scorer, needs_of(scorer)

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score, and keep the trace."""
        results: list[Contributions] = []
        self.trace = trace(lambda: results.append(self.scorer.score(inputs, rng)))
        return results[0]


def last_of(rounds: int, scorer: Scorer) -> Callable[[], object]:
    """Settle all but the last of so many rounds; return what settles that one."""
    rng = np.random.default_rng(0)
    model = np.zeros(PARAMETERS, "f4")
    server = fedmerit.Server(model, scorer=scorer, reward="positive:budget=1000")
    for _ in range(rounds - 1):
        server.settle(updates=updates(rng))
    sent = updates(rng)
    return lambda: server.settle(updates=sent, sizes=dict.fromkeys(sent, 100))


def settled_round() -> Trace:
    """Return the trace of the last of a few rounds."""
    return trace(last_of(ROUNDS, Merit()))


def scored_round() -> Trace:
    """Return the part of it that is the scorer's."""
    watched = Watched(Merit())
    last_of(ROUNDS, watched)()
    return watched.trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", action="store_true", help="print every call, file by file")
    parser.add_argument("--pairs", action="store_true", help="print hops by pair of files")
    chosen = parser.parse_args()
    found = settled_round()
    if chosen.calls:
        before = ""
        for file, function in found.calls:
            if file != before:
                print(f"{file}")
            print(f"    {function}")
            before = file
    plain = found.without_kernels()
    if chosen.pairs:
        for (first, second), count in plain.pairs.most_common():
            print(f"{count:4}  {first} -> {second}")
    scorer = scored_round().without_kernels()
    parts = {"without kernels": plain, "of these the scorer": scorer, "with kernels": found}
    for name, part in parts.items():
        print(f"{name}: {len(part.files)} files, {part.functions} functions, {part.hops} hops")


if __name__ == "__main__":
    main()
