"""Scoring and aggregation at the paper's size: k=20 clients, d=159,010 parameters, h=8, m=5."""

import subprocess
import sys
from functools import partial

import numpy as np

import fedmerit
from checks.speed import plain
from checks.speed.timing import Part, medians, peak_extra_bytes

CLIENTS, PARAMETERS, LEVELS, PEERS, BONUS = 20, 159_010, 8, 5, 1000

_SETUP = f"""
import numpy as np, fedmerit
rng = np.random.default_rng(0)
updates = rng.normal(size=({CLIENTS}, {PARAMETERS})).astype(np.float32)
for method in ("exact", "pca"):
    fedmerit.score(updates[:, :1000], method=method, rng=0)
"""


def example_updates() -> np.ndarray:
    """Three quarters of the clients share a direction; the others report noise."""
    rng = np.random.default_rng(0)
    updates = 0.002 * (rng.normal(size=PARAMETERS) + rng.normal(size=(CLIENTS, PARAMETERS)))
    updates[15:] = rng.normal(scale=0.01, size=(5, PARAMETERS))
    return updates.astype(np.float32)


def measure() -> Part:
    """Return this part of the report."""
    updates = example_updates()
    rng = np.random.default_rng(1)
    signals = fedmerit.QuantileBins(LEVELS).quantise(updates, rng)
    values = signals.values
    weights = fedmerit.weights(fedmerit.score(updates, method="exact", rng=0).scores)
    check_same_scores(signals)
    seconds = medians(
        {
            "mean": lambda: updates.mean(0),
            "exact": partial(fedmerit.score, updates, method="exact", rng=1),
            "exact signals": partial(fedmerit.score, signals, method="exact", rng=1),
            "pca": partial(fedmerit.score, updates, method="pca", peers=PEERS, rng=1),
            "pca signals": partial(fedmerit.score, signals, method="pca", peers=PEERS, rng=1),
            "plain exact": lambda: plain.exact_scores(
                plain.quantile_signals(updates, LEVELS), LEVELS, rng
            ),
            "plain exact signals": lambda: plain.exact_scores(values, LEVELS, rng),
            "plain pca": lambda: plain.published_scores(
                plain.quantile_signals(updates, LEVELS), LEVELS, PEERS, BONUS, rng
            ),
            "plain pca signals": lambda: plain.published_scores(values, LEVELS, PEERS, BONUS, rng),
            "median": partial(fedmerit.aggregate, updates, rule="median"),
            "weighted median": partial(fedmerit.aggregate, updates, weights, rule="median"),
            "np.median": lambda: np.median(updates, axis=0),
        }
    )

    def row(what: str, ours: str, other: str) -> str:
        faster, means = seconds[other] / seconds[ours], seconds[ours] / seconds["mean"]
        return f"| {what} | {faster:.1f} | {means:.1f} |"

    cells = CLIENTS * PARAMETERS
    memory = {
        method: peak_extra_bytes(_SETUP, f'fedmerit.score(updates, method="{method}", rng=0)')
        / cells
        for method in ("exact", "pca")
    }
    lines = [
        f"## Scoring and medians: k={CLIENTS}, d={PARAMETERS:,}, h={LEVELS}, m={PEERS}",
        "",
        "| what | times faster than plain NumPy | times the cost of `X.mean(0)` |",
        "|---|---|---|",
        row("exact, all 190 pairs, from floats", "exact", "plain exact"),
        row("exact, all 190 pairs, from signals", "exact signals", "plain exact signals"),
        row("as published, 100 ordered pairs, from floats", "pca", "plain pca"),
        row("as published, 100 ordered pairs, from signals", "pca signals", "plain pca signals"),
        row("median, against `np.median`", "median", "np.median"),
        row("weighted median, against `np.median`", "weighted median", "np.median"),
        "",
        "Plain NumPy is `checks/speed/plain.py`: the same scores with one `np.bincount` per pair.",
        "",
        "Peak extra memory of scoring, bytes per client and parameter (one of them is the signal "
        f"itself): exact {memory['exact']:.2f}, as published {memory['pca']:.2f}.",
        "",
        f"Import of `fedmerit` in a fresh process, median of 5: {import_seconds():.2f} s.",
    ]
    names = {"exact": "exact", "pca": "as published", "median": "median"}
    names["weighted median"] = "weighted median"
    ratios = {
        f"{label}, scoring / mean": seconds[n] / seconds["mean"] for n, label in names.items()
    }
    ratios |= {f"{names[n]}, bytes per cell": value for n, value in memory.items()}
    return Part(lines, ratios)


def check_same_scores(signals: fedmerit.Signals) -> None:
    """Refuse to compare speeds of two things that do not agree."""
    ours = fedmerit.score(signals, method="exact", rng=0).scores
    theirs = plain.exact_scores(signals.values, LEVELS, np.random.default_rng(0))
    assert np.abs(ours - theirs).max() < 0.005, "plain and compiled scores differ"


def import_seconds() -> float:
    """Measure the import with a clock inside the new process."""
    code = "import time; t = time.perf_counter(); import fedmerit; print(time.perf_counter() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        for _ in range(5)
    ]
    return sorted(times)[2]
