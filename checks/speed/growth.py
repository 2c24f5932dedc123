"""How time and memory grow with d, k and h: a fresh process per point, exponents fitted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from checks import ROOT
from checks.speed.large import fitting, sample_for
from checks.speed.timing import Cost, Part, cost
from fedmerit.experiments.picture import save

FIGURE = "performance-growth"
PARAMETERS = (100_000, 1_000_000, 10_000_000, 100_000_000)
CLIENTS = (10, 32, 100, 316, 1000, 3162, 10_000)
LEVELS = (2, 4, 8, 16, 32, 64, 128, 256)
_SETUP = """
import numpy as np, fedmerit
from checks.speed.rounds import make_round, public_vectors
public = public_vectors(1, {parameters})
updates, _ = make_round({clients}, public)
def run(updates=updates, public=public):
    return {call}
run(updates[:12, :3000].copy(), public[:, :3000].copy())
"""
_CONDITIONAL = (
    "fedmerit.score(updates, public=public, rng=0, "
    "method=fedmerit.ConditionalPCA(sample={sample}, peers={peers}))"
)
_EXACT = 'fedmerit.score(updates, method="exact", levels={levels}, rng=0)'
Curve = Mapping[int, Cost]


@dataclass(frozen=True)
class Axis:
    """Curves over one quantity."""

    name: str
    title: str
    curves: Mapping[str, Curve]


def measure() -> Part:
    """Measure the curves, draw them, and return this part of the report."""
    axes = [_over_parameters(), _over_clients(), _over_levels()]
    _draw(axes)
    rows = [
        f"| {axis.name} | {label} | {min(curve):,} to {max(curve):,} | {exponent(curve):.2f} | "
        f"{exponent(curve, upper=True):.2f} | {_megabytes(curve)} |"
        for axis in axes
        for label, curve in axis.curves.items()
    ]
    return Part(
        [
            "## Growth",
            "",
            f"![Time against d, k and h on log axes]({FIGURE}.svg)",
            "",
            "Time ~ size^exponent, by least squares on log axes: over all points, and over the "
            "upper half of them, where fixed costs weigh less. Memory is the peak above what the "
            "process held before, at the largest size.",
            "",
            "| over | what | range | exponent | exponent, upper half | peak extra memory |",
            "|---|---|---|---|---|---|",
            *rows,
        ]
    )


def exponent(curve: Curve, *, upper: bool = False) -> float:
    """Return the slope of log time over log size."""
    sizes = sorted(curve)
    if upper:
        sizes = sizes[len(sizes) // 2 :] if len(sizes) > 3 else sizes[-2:]
    times = [curve[size].seconds for size in sizes]
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def _point(clients: int, parameters: int, call: str) -> Cost:
    setup = _SETUP.format(clients=clients, parameters=parameters, call=call)
    return cost(setup, "run()", repeats=3)


def _over_parameters() -> Axis:
    sizes = [size for size in PARAMETERS if fitting(20, size) == size]
    sampled = _CONDITIONAL.format(sample=sample_for(20), peers=None)
    exact = _EXACT.format(levels=8)
    return Axis(
        "d",
        "parameters, k = 20",
        {
            "X.mean(0)": {d: _point(20, d, "updates.mean(0)") for d in sizes},
            "conditional, sampled": {d: _point(20, d, sampled) for d in sizes},
            "exact, all parameters": {d: _point(20, d, exact) for d in sizes if d <= 10_000_000},
        },
    )


def _over_clients() -> Axis:
    width = 20_000
    planned = _CONDITIONAL.format(sample=width, peers=8)
    merit = "fedmerit.score(updates, public=public, rng=0)"
    every = _CONDITIONAL.format(sample=width, peers=None)
    return Axis(
        "k",
        "clients, d = 20,000",
        {
            "X.mean(0)": {k: _point(k, width, "updates.mean(0)") for k in CLIENTS},
            "conditional, 8 peers": {k: _point(k, width, planned) for k in CLIENTS},
            "conditional, all pairs": {k: _point(k, width, every) for k in CLIENTS if k <= 1000},
            "merit": {k: _point(k, width, merit) for k in CLIENTS},
        },
    )


def _over_levels() -> Axis:
    curve = {h: _point(20, 159_010, _EXACT.format(levels=h)) for h in LEVELS}
    return Axis("h", "levels, k = 20, d = 159,010", {"exact, all pairs": curve})


def _megabytes(curve: Curve) -> str:
    return f"{curve[max(curve)].extra_bytes / 2**20:.0f} MB"


def _draw(axes: Sequence[Axis]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(axes), figsize=(12, 4), constrained_layout=True)
    for axis, panel in zip(axes, panels, strict=True):
        for label, curve in axis.curves.items():
            sizes = sorted(curve)
            seconds = [curve[size].seconds for size in sizes]
            panel.loglog(
                sizes, seconds, "o-", label=f"{label} (~{exponent(curve, upper=True):.2f})"
            )
        panel.set_xlabel(axis.title)
        panel.minorticks_off()
        # Powers as plain text: Matplotlib draws its own letter by letter.
        for numbers in (panel.xaxis, panel.yaxis):
            numbers.set_major_formatter(lambda value, _: f"{value:,g}")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    panels[0].set_ylabel("seconds")
    save(figure, ROOT / "docs" / "results" / f"{FIGURE}.svg")
    plt.close(figure)


if __name__ == "__main__":
    print("\n".join(measure().lines))
