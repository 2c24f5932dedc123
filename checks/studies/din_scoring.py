"""What to look at in updates with embeddings: all parameters, touched rows, or dense layers.

`python -m checks.studies.din_scoring kuairand --data-dir FOLDER` prints the table of
docs/decisions/0008: mean scores of honest users and of riders that join beside them.
"""

import time
from dataclasses import replace

import numpy as np

from checks.studies.click_arguments import chosen_log
from fedmerit import ConditionalPCA, ExactPCA, Merit, QuantileBins
from fedmerit.behaviours import Assignment, parse_behaviour
from fedmerit.experiments.clicks import BASE
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.observe import observe_rounds
from fedmerit.types import RoundInputs

ROUNDS = (2, 20)
RIDERS = ("random-update:0.01", "random-model:0.01", "stale", "sparse", "fake-data:1:2")
SHARE = 0.1
SCORERS = {
    "exact, h=8": ExactPCA(),
    "exact, h=256": ExactPCA(quantiser=QuantileBins(256)),
    "conditional": ConditionalPCA(),
    "merit": Merit(),
}


def restrict(inputs: RoundInputs, chosen: np.ndarray) -> RoundInputs:
    def cut(a: np.ndarray | None) -> np.ndarray | None:
        return None if a is None else np.ascontiguousarray(a[..., chosen])

    return replace(
        inputs,
        updates=cut(inputs.updates),
        public=cut(inputs.public),
        layers=cut(inputs.layers),
        previous=cut(inputs.previous),
    )


def sparse_noise(honest: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noise that leaves as many embedding rows at zero as an honest update does."""
    noise = rng.normal(0, 0.01, honest.size).astype(honest.dtype)
    noise[: len(rows)][honest[: len(rows)] == 0] = 0
    return noise


def main() -> None:
    log, seed = chosen_log(seed=50)
    kinds = [kind for kind in RIDERS if kind != "sparse"]
    extra = Assignment(tuple((SHARE, parse_behaviour(kind)) for kind in kinds))
    config = replace(
        BASE, users=min(1000, log.users), seed=seed, extra=extra, scored="all",
        scorer=Merit(), weighting="size", touched=True,
    )  # fmt: skip
    # Weighed by size, riders included: a harsh federation.
    federation = Federation(config, log)
    rows = federation.task.rows
    assert rows is not None
    print("| round | looked at | score | honest | " + " | ".join(RIDERS) + " | ms |")
    print("|---|---|---|---:|" + "---:|" * (len(RIDERS) + 1))
    for number, inputs in zip(ROUNDS, observe_rounds(config, log, ROUNDS), strict=True):
        honest, each = config.per_round, (len(inputs.updates) - config.per_round) // len(kinds)
        rng = np.random.default_rng(number)
        fakes = np.stack([sparse_noise(inputs.updates[i], rows, rng) for i in range(each)])
        inputs = replace(
            inputs,
            updates=np.vstack([inputs.updates, fakes]),
            previous=np.vstack([inputs.previous, np.zeros_like(fakes)]),
            trust=np.append(inputs.trust, np.zeros(each)),
        )
        order = [*kinds, "sparse"]
        moved = (inputs.updates[:honest] != 0).sum(axis=0)
        views = {
            "all": np.arange(inputs.parameters),
            "rows two or more touched": np.flatnonzero(moved >= 2),
            "dense": np.arange(len(rows), inputs.parameters),
        }
        for view, where in views.items():
            small = restrict(inputs, where)
            for name, scorer in SCORERS.items():
                begin = time.perf_counter()
                result = scorer.score(small, np.random.default_rng(0))
                spent = 1000 * (time.perf_counter() - begin)
                means = {
                    kind: result.scores[honest + i * each : honest + (i + 1) * each].mean()
                    for i, kind in enumerate(order)
                }
                cells = " | ".join(f"{means[kind]:.4f}" for kind in RIDERS)
                mine = result.scores[:honest].mean()
                passed = f" ({int(result.eligible[:honest].sum())}/{honest})"
                print(
                    f"| {number} | {view} ({len(where)}) | {name} | {mine:.4f}{passed} "
                    f"| {cells} | {spent:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
