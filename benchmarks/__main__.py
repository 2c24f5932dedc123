"""Run the benchmarks and write docs/results/performance.md and .json: ``python -m benchmarks``.

``python -m benchmarks acceptance large`` measures these parts only and prints them.
"""

import json
import sys
from collections.abc import Callable

from benchmarks import acceptance, growth, large, peers, scoring, simulator, training
from benchmarks.timing import ROOT, Part, machine

PARTS: dict[str, Callable[[], Part]] = {
    "acceptance": acceptance.measure,
    "peers": peers.measure,
    "scoring": scoring.measure,
    "large": large.measure,
    "growth": growth.measure,
    "simulator": simulator.measure,
    "training": training.measure,
}


def main(names: list[str]) -> None:
    lines = [
        "# Performance",
        "",
        f"Written by `make bench` on {machine()}. Everything runs in one process, in turns (where "
        "not said otherwise); the",
        "figures are ratios of medians. They hold for this machine and are not comparable with",
        "figures from another run. `python -m benchmarks.guard` measures again and tells which of",
        "the ratios in performance.json became worse by more than a quarter.",
        "",
    ]
    ratios: dict[str, float] = {}
    for name in names or PARTS:
        part = PARTS[name]()
        lines += [*part.lines, ""]
        ratios |= part.ratios
        print("\n".join(part.lines), flush=True)
    if not names:
        folder = ROOT / "docs" / "results"
        (folder / "performance.md").write_text("\n".join(lines), encoding="utf-8")
        rounded = {name: float(f"{value:.4g}") for name, value in ratios.items()}
        text = json.dumps(rounded, indent=2, sort_keys=True) + "\n"
        (folder / "performance.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
