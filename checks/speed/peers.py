"""Other people's scores and robust rules, their own code, on the same matrix in the same process.

They are no dependency of ours: put what you have on the path (``pip install --target FOLDER``, then
``PYTHONPATH=FOLDER``). What cannot be imported is listed with the reason.
"""

import importlib
import importlib.util
import random
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np

from checks.speed.acceptance import (
    CLIENTS,
    KNOWN,
    PARAMETERS,
    SHAPES,
    as_flower,
    round_start_to_end,
)
from checks.speed.rounds import Floats, make_round, public_vectors
from checks.speed.timing import Part, medians

BYZANTINE = 8
TESTS = 1000
Job = Callable[[], object]


def module_of(name: str) -> ModuleType:
    """Import a module without running its packages' own start, which would import everything."""
    parents = name.split(".")[:-1]
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(parents[0])
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError(f"no package {parents[0]}")
    folder = Path(next(iter(spec.submodule_search_locations)))
    for depth in range(1, len(parents) + 1):
        package = ModuleType(".".join(parents[:depth]))
        package.__path__ = [str(folder.joinpath(*parents[1:depth]))]
        sys.modules.setdefault(package.__name__, package)
    return importlib.import_module(name)


def byzfl_krum(updates: Floats) -> Job:
    """Krum of ByzFL."""
    rules = module_of("byzfl.aggregators.aggregators")
    return partial(rules.Krum(f=BYZANTINE), updates)


def byzfl_median(updates: Floats) -> Job:
    """Median of ByzFL."""
    rules = module_of("byzfl.aggregators.aggregators")
    return partial(rules.Median(), updates)


def nvflare_fedce(updates: Floats) -> Job:
    """FedCE of NVIDIA FLARE: cosines and the clients' own validation scores (given here)."""
    fedce = importlib.import_module("nvflare.app_opt.pt.fedce")
    model = importlib.import_module("nvflare.app_common.abstract.fl_model")
    replies = [
        model.FLModel(
            params={f"layer{n}": part for n, part in enumerate(layers)},
            params_type="DIFF",
            current_round=1,
            meta={"client_name": f"client{i}", fedce.FedCEConstants.MINUS_MODEL_SCORE: 0.5},
        )
        for i, (layers, _) in enumerate(as_flower(updates))
    ]

    def run() -> object:
        aggregator = fedce.FedCEModelAggregator()
        for reply in replies:
            aggregator.accept_model(reply)
        return aggregator.aggregate_model()

    return run


def fedml_shapley(updates: Floats) -> Job:
    """GTG-Shapley of FedML; its utility is the accuracy on 1,000 samples (of noise)."""
    shapley = module_of("fedml.core.contribution.gtg_shapley_value")
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((TESTS, 784), dtype=np.float32)
    labels = rng.integers(0, 10, TESTS)
    start = rng.normal(scale=0.05, size=PARAMETERS).astype(np.float32)
    models = {i + 1: start + row for i, row in enumerate(updates)}
    cuts = np.cumsum([int(np.prod(shape)) for shape in SHAPES])[:-1]

    def accuracy(model: Floats, *_: object) -> float:
        parts = zip(np.split(model, cuts), SHAPES, strict=True)
        weight, bias, last, end = (part.reshape(shape) for part, shape in parts)
        hidden = np.maximum(samples @ weight.T + bias, 0)
        return float(((hidden @ last.T + end).argmax(1) == labels).mean())

    def average(_: object, chosen: dict[int, Floats]) -> Floats:
        return np.mean(list(chosen.values()), axis=0)

    def run() -> object:
        # Its permutations come from NumPy's global generator.
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        assessor = shapley.GTGShapleyValue(
            SimpleNamespace(round_idx=0, client_num_in_total=CLIENTS)
        )
        assessor.shapley_values_by_round[0] = {}
        with redirect_stdout(StringIO()):
            # The accuracies before and after are told, so that the round is not skipped.
            return assessor.run(
                CLIENTS, list(models), average, models, 0.0, 1.0, None, accuracy, "cpu"
            )

    return run


# Name, what makes it ready to run, whether it gives scores, how often it is measured.
PEERS: dict[str, tuple[Callable[[Floats], Job], bool, int]] = {
    "byzfl Krum": (byzfl_krum, False, 5),
    "byzfl median": (byzfl_median, False, 5),
    "NVFLARE FedCE": (nvflare_fedce, True, 5),
    "FedML GTG-Shapley": (fedml_shapley, True, 1),
}
UNMEASURED = {
    "pyDVL": "values the samples of a data set, not updates; a client as a sample needs a utility "
    "that trains or averages, and then costs what GTG-Shapley costs",
    "pfl": "a simulator; it needs dp-accounting, which was not installed here",
}


def measure() -> Part:
    """Return this part of the report."""
    public = public_vectors(KNOWN, PARAMETERS)
    updates, _ = make_round(CLIENTS, public)
    ours = {
        "mean": lambda: updates.mean(0),
        "conditional": partial(round_start_to_end, "conditional", updates, public),
    }
    rows, missing, ratios = [], dict(UNMEASURED), {}
    for name, (prepare, scores, repeats) in PEERS.items():
        try:
            job = prepare(updates)
        except ImportError as problem:
            missing[name] = f"not importable here: {problem}"
            continue
        seconds = medians({**ours, name: job}, repeats) if repeats > 1 else _once(ours, name, job)
        ratios[name] = seconds["conditional"] / seconds[name]
        rows.append(
            f"| {name} | {'yes' if scores else 'no'} | {seconds[name] / seconds['mean']:,.1f} | "
            f"{ratios[name]:.3f} |"
        )
    return Part(
        [
            "## Peers, their own code",
            "",
            "| peer | gives scores | times `X.mean(0)` | our conditional round / peer |",
            "|---|---|---|---|",
            *rows,
            "",
            *(f"- {name}: {reason}." for name, reason in missing.items()),
        ],
        {f"conditional / {name}": ratio for name, ratio in ratios.items()},
    )


def _once(ours: dict[str, Job], name: str, job: Job) -> dict[str, float]:
    """Measure what takes long a single time, without a warm-up."""
    seconds = medians(ours, repeats=5)
    begin = time.perf_counter()
    job()
    return {**seconds, name: time.perf_counter() - begin}


if __name__ == "__main__":
    print("\n".join(measure().lines))
