"""A round from start to end at the paper's size, against the mean and Flower's code."""

import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from flwr.server.strategy.aggregate import aggregate_krum, aggregate_median

import fedmerit
from checks.speed.rounds import Floats, make_round, public_vectors
from checks.speed.timing import Part, medians

CLIENTS, PARAMETERS, KNOWN = 20, 159_010, 12
LAYERS = np.repeat(np.arange(4), (156_800, 200, 2_000, 10))
SHAPES = ((200, 784), (200,), (10, 200), (10,))


def round_start_to_end(
    method: str | fedmerit.Scorer, updates: Floats, public: Floats
) -> fedmerit.types.FloatArray:
    """Score with flags, weigh by evidence, aggregate."""
    result = fedmerit.score(updates, method=method, public=public, layers=LAYERS, rng=1)
    return fedmerit.aggregate(updates, fedmerit.gated_weights(result))


def as_flower(updates: Floats) -> list[tuple[list[Floats], int]]:
    """Return the updates as Flower's aggregate functions take them: lists of layers."""
    cuts = np.cumsum([int(np.prod(shape)) for shape in SHAPES])[:-1]
    return [
        ([part.reshape(shape) for part, shape in zip(np.split(row, cuts), SHAPES, strict=True)], 1)
        for row in updates
    ]


def measure() -> Part:
    """Return this part of the report."""
    public = public_vectors(KNOWN, PARAMETERS)
    updates, kinds = make_round(CLIENTS, public)
    flower, byzantine = as_flower(updates), kinds.count("stale") + kinds.count("random")
    sampled = fedmerit.ConditionalPCA(sample=fedmerit.sample_size(0.02, 0.01, CLIENTS))
    exact = partial(fedmerit.score, updates, method="exact", rng=1)
    jobs: dict[str, Callable[[], object]] = {
        "mean": lambda: updates.mean(0),
        "conditional": partial(round_start_to_end, "conditional", updates, public),
        "conditional, sampled": partial(round_start_to_end, sampled, updates, public),
        "merit": partial(round_start_to_end, "merit", updates, public),
        "exact h=8": partial(exact, levels=8),
        "exact h=256": partial(exact, levels=256),
        "cosine": partial(fedmerit.score, updates, method="cosine"),
        "Flower Krum": lambda: aggregate_krum(flower, byzantine, 0),
        "Flower median": lambda: aggregate_median(flower),
        "krum": partial(fedmerit.aggregate, updates, rule="krum", byzantine=byzantine),
        "median": partial(fedmerit.aggregate, updates, rule="median"),
    }
    wall, processor = medians(jobs, 15), medians(jobs, 15, time.process_time)
    result = fedmerit.score(updates, method="conditional", public=public, layers=LAYERS, rng=1)
    assert result.flagged.tolist() == [kind != "honest" for kind in kinds], "flags are wrong"
    labels = {
        "conditional": f"conditional, {KNOWN} public vectors, layers; flags, weights, aggregation",
        "conditional, sampled": f"the same on {sampled.sample:,} parameters (epsilon 0.02)",
        "merit": "merit (the default), the same from start to end",
        "exact h=8": "exact, all 190 pairs, h=8, scores only",
        "exact h=256": "exact, all 190 pairs, h=256, scores only",
        "cosine": "cosine to the mean (as CGSV scores), our code, scores only",
        "krum": "Krum, our code",
        "Flower Krum": "Krum, Flower's `aggregate_krum`",
        "median": "median, our code",
        "Flower median": "median, Flower's `aggregate_median`",
    }
    times = {name: wall[name] / wall["mean"] for name in labels}
    work = {name: processor[name] / processor["mean"] for name in labels}
    ratios = {f"{name} / mean": work[name] for name in labels if "Flower" not in name}
    ratios["exact h=256 / exact h=8"] = processor["exact h=256"] / processor["exact h=8"]
    ratios["conditional / Flower Krum"] = processor["conditional"] / processor["Flower Krum"]
    return Part(
        [
            f"## A round from start to end: k={CLIENTS}, d={PARAMETERS:,}",
            "",
            "Everything on the same matrix, in the same process. Of the 20 clients, four replay",
            "the last global update and four send noise; these are flagged, and nobody else.",
            f"Measured at a load of {os.getloadavg()[0]:.1f}: above 2, waiting for a core is in",
            "the wall clock, and more so the longer something takes. Processor time, summed over",
            "threads, does not see that; without load the wall clock is below it.",
            "",
            "| what | times `X.mean(0)`, wall clock | processor time |",
            "|---|---|---|",
            *(
                f"| {label} | {times[name]:.1f} | {work[name]:.1f} |"
                for name, label in labels.items()
            ),
            "",
            f"`exact` at h=256 takes {wall['exact h=256'] / wall['exact h=8']:.1f} times as long "
            f"as at h=8 ({ratios['exact h=256 / exact h=8']:.1f} in processor time), and the "
            f"conditional round {wall['conditional'] / wall['Flower Krum']:.2f} times as long as "
            f"Flower's Krum ({ratios['conditional / Flower Krum']:.2f}).",
        ],
        ratios,
    )


if __name__ == "__main__":
    print("\n".join(measure().lines))
