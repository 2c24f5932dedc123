"""What a round of many clients takes on one server: ``python -m checks.speed.many_clients``.

Writes docs/results/many-clients.md. Replies are made when the server asks for them, one at a time,
as if they were fetched from a disk or a queue; to make them is part of no column. Every size runs
in a fresh process and is one round, measured in seconds of the processor. The last lines go on
along the measured slopes, on paper. ``--large`` takes 10,000 clients with a million parameters.
"""

import argparse
import time
from collections.abc import Iterator, Mapping

import numpy as np

from checks import ROOT
from checks.speed.timing import cost, machine
from fedmerit import Merit, Server
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.types import Contributions, FloatArray, RoundInputs, Scorer, needs_of

SAMPLE = 1_000
SIZES = ((1_000, 20_000), (2_000, 20_000), (5_000, 20_000), (10_000, 20_000))
WIDE, LARGE = (2_000, 1_000_000), (10_000, 1_000_000)
MILLION = 1_000_000


class Fetched(Mapping[str, FloatArray]):
    """Updates that are made when they are asked for, from pieces of one pool of noise."""

    def __init__(self, clients: int, parameters: int, number: int) -> None:
        self.clients, self.parameters, self.number = clients, parameters, number
        self.seconds = 0.0
        rng = np.random.default_rng(number)
        self._news = rng.standard_normal(parameters, dtype=np.float32) / 100
        self._pool = rng.standard_normal(parameters + 100_000, dtype=np.float32) / 100

    def __getitem__(self, client: str) -> FloatArray:
        begin = time.process_time()
        start = (int(client) * 7919 + self.number) % 100_000
        update: FloatArray = self._news + self._pool[start : start + self.parameters]
        self.seconds += time.process_time() - begin
        return update

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.clients))

    def __len__(self) -> int:
        return self.clients


class Timed:
    """A scorer that notes how long it takes."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.needs, self.seconds = scorer, needs_of(scorer), 0.0

    def score(self, inputs: RoundInputs, rng: np.random.Generator) -> Contributions:
        """Score as the scorer inside does."""
        begin = time.process_time()
        try:
            return self.scorer.score(inputs, rng)
        finally:
            self.seconds += time.process_time() - begin


class Round:
    """A server before its first round."""

    def __init__(self, clients: int, parameters: int) -> None:
        self.replies = Fetched(clients, parameters, 1)
        self.scorer = Timed(Merit(sample=SAMPLE))
        self.server = Server(np.zeros(parameters, "f4"), scorer=self.scorer, seed=1)

    def step(self) -> None:
        """Settle it, and print how long its parts took, without making replies."""
        begin = time.process_time()
        sizes = {client: 100 + int(client) % 900 for client in self.replies}
        self.server.judge(updates=self.replies, sizes=sizes)
        judged, made = time.process_time() - begin, self.replies.seconds
        begin = time.process_time()
        self.server.combine()
        combined = time.process_time() - begin - (self.replies.seconds - made)
        print("parts", judged - made - self.scorer.seconds, self.scorer.seconds, combined)


def measured(clients: int, parameters: int) -> dict[str, float]:
    """Return seconds of reading, scoring and combining, and extra bytes."""
    setup = "from checks.speed.many_clients import Round\nRound(300, 20_000).step()\n"
    setup += f"taken = Round({clients}, {parameters})"
    found = cost(setup, "taken.step()", repeats=0)
    _, *parts = [line for line in found.output.splitlines() if line.startswith("parts")][-1].split()
    seconds = dict(zip(("read", "score", "combine"), map(float, parts), strict=True))
    return {**seconds, "bytes": float(found.extra_bytes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--large", action="store_true", help="10,000 x a million as well")
    chosen = (*SIZES, WIDE, *([LARGE] if parser.parse_args().large else []))
    lines = [
        "# Many clients on one server",
        "",
        f"Written by `python -m checks.speed.many_clients` on {machine()}: `Server` with",
        f"`Merit(sample={SAMPLE:_})`, replies that are fetched one at a time, one round, "
        "seconds of",
        "the processor, memory above what is there before it. Near-copies and lengths included.",
        "",
        "| clients | parameters | reading, s | scoring, s | combining, s | memory, MB |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    found: dict[tuple[int, int], dict[str, float]] = {}
    for size in chosen:
        found[size] = part = measured(*size)
        lines.append(
            f"| {size[0]:,} | {size[1]:,} | {part['read']:.1f} | {part['score']:.1f} "
            f"| {part['combine']:.1f} | {part['bytes'] / 1e6:,.0f} |"
        )
        print(lines[-1], flush=True)
    few, many, wide = found[SIZES[0]], found[SIZES[-1]], found[WIDE]
    slope = {n: (many[n] - few[n]) / (SIZES[-1][0] - SIZES[0][0]) for n in ("score", "bytes")}
    pass_ = (wide["read"] + wide["combine"]) / WIDE[0]
    hours = {"scoring": MILLION * slope["score"] / 3600, "reading": MILLION * pass_ / 3600}
    lines += [
        "",
        "From 1,000 to 10,000 clients each one more takes",
        f"{1e3 * slope['score']:.1f} ms of scoring and {slope['bytes'] / 1e3:.0f} kB; to read and",
        f"combine an update of a million parameters takes {1e3 * pass_:.1f} ms. Along these slopes",
        "a million clients with a million parameters each would take one server",
        f"{hours['scoring']:.1f} hours of scoring, {hours['reading']:.1f} hours of reading and",
        f"{MILLION * slope['bytes'] / 1e9:.0f} GB.",
        "[Many clients](../many-clients.md) says what of that can be split.",
        "",
    ]
    write_page(ROOT / "docs/results/many-clients.md", "\n".join(lines), Sources.of(main))


if __name__ == "__main__":
    main()
