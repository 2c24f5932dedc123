"""Tell whether something became slower: ``python -m checks.speed.guard``.

Measures the round from start to end, the first round on a fresh machine and what a server costs
again, and compares their ratios with those that ``make bench`` stored in
docs/results/performance.json. ``--all`` repeats every part. A ratio that is more than a quarter
larger than the stored one is reported, and the exit status is 1.
"""

import sys
from collections.abc import Mapping

from checks.speed.__main__ import PARTS, stored

TOLERANCE = 1.25
USUAL = ("acceptance", "cold", "server")


def worsened(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """Return a line for every ratio that is too much larger now; only those in both count."""
    return [
        f"{name}: {before[name]:.3g} before, {value:.3g} now ({value / before[name]:.2f} times)"
        for name, value in now.items()
        if name in before and value > TOLERANCE * before[name]
    ]


def main(arguments: list[str]) -> int:
    """Measure, compare, report."""
    before = {name: ratio for part in stored().values() for name, ratio in part.ratios.items()}
    now: dict[str, float] = {}
    for name in PARTS if arguments == ["--all"] else USUAL:
        now |= PARTS[name]().ratios
    problems = worsened(before, now)
    print("\n".join(problems) or f"{len(now)} ratios, none more than 25 % worse than stored")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
