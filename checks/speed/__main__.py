"""Run the benchmarks and write docs/results/performance.md and .json: ``python -m checks.speed``.

``python -m checks.speed acceptance large`` measures these parts again and keeps the others.
"""

import json
import sys
import time
from collections.abc import Callable

from checks import ROOT
from checks.speed import (
    acceptance,
    browser,
    cold,
    flower_cost,
    growth,
    large,
    peers,
    scoring,
    simulator,
    training,
)
from checks.speed.timing import Part, machine
from fedmerit.experiments.benchmark.base import SCORERS_MODULE
from fedmerit.experiments.fingerprint import Sources, write_page

FOLDER = ROOT / "docs" / "results"
PARTS: dict[str, Callable[[], Part]] = {
    "acceptance": acceptance.measure,
    "cold": cold.measure,
    "server": flower_cost.measure,
    "peers": peers.measure,
    "scoring": scoring.measure,
    "large": large.measure_model,
    "clients": large.measure_clients,
    "growth": growth.measure,
    "simulator": simulator.measure,
    "training": training.measure,
    "page": browser.measure,
}


def stored() -> dict[str, Part]:
    """Return the parts as they were measured last."""
    file = FOLDER / "performance.json"
    if not file.is_file():
        return {}
    return {
        name: Part(**fields)
        for name, fields in json.loads(file.read_text(encoding="utf-8")).items()
    }


def write(parts: dict[str, Part]) -> None:
    """Write the report, and what it was written from."""
    lines = [
        "# Performance",
        "",
        f"Written by `make bench` on {machine()}. Everything in a table runs in one process, in",
        "turns, where not said otherwise; the figures are ratios of medians. They hold for this",
        "machine and are not comparable with figures from another run. `python -m",
        "checks.speed.guard` measures again and tells which of the ratios in performance.json",
        "became worse by more than a quarter.",
        "",
    ]
    fields = {}
    for name in PARTS:
        if name in parts:
            lines += [*parts[name].lines, ""]
            ratios = {key: float(f"{value:.4g}") for key, value in parts[name].ratios.items()}
            fields[name] = {"lines": list(parts[name].lines), "ratios": ratios}
    write_page(
        FOLDER / "performance.md", "\n".join(lines), Sources.of(*PARTS.values(), SCORERS_MODULE)
    )
    (FOLDER / "performance.json").write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")


def main(names: list[str]) -> None:
    """Measure the named parts, or all, one after the other; each is on disk when it is done."""
    parts = stored()
    for name in names or PARTS:
        begin = time.perf_counter()
        parts[name] = PARTS[name]()
        write(parts)
        if name == "server":
            flower_cost.write(parts[name])
        print("\n".join(parts[name].lines), flush=True)
        print(f"({name}: {time.perf_counter() - begin:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
