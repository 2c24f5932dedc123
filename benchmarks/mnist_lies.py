"""Lies that pay on MNIST: ``python -m benchmarks.mnist_lies`` writes docs/results/mnist-lies.md.

The audit's whole catalogue of lies about a float update, tried on updates of real federations under
scores with a certificate and without. Needs ``fedmerit data fetch mnist``.
"""

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np

from benchmarks.timing import ROOT
from fedmerit.incentive.audit import AuditSettings, audit_updates
from fedmerit.rng import stream
from fedmerit.scorers import make_scorer
from fedmerit.simulation.config import FederationConfig, Partition
from fedmerit.simulation.datasets import load
from fedmerit.simulation.observe import observe_rounds
from fedmerit.types import RoundInputs

SEEDS, ROUNDS = (0, 1, 2), (1, 5, 10)
METHODS = ("exact", "conditional", "merit")
KNOWN = 2  # public vectors that lies are made of: the last global update and the model
WORTH_NAMING = 0.05
TARGET = ROOT / "docs" / "results" / "mnist-lies.md"

Gains = dict[tuple[str, str, str], list[float]]


def gains_of(method: str, inputs: RoundInputs, client: int, seed: int) -> Gains:
    """Return the gain of each lie, relative to the mean score of an honest client of the round."""
    scorer = make_scorer(method)

    def score(updates: np.ndarray) -> np.ndarray:
        # The same draws whatever is reported: only the report makes a difference.
        return scorer.score(replace(inputs, updates=updates), stream(seed, "scoring")).scores

    honest = float(score(inputs.updates).mean())
    (audit,) = audit_updates(
        inputs.updates,
        lambda updates: score(updates.astype(np.float32)),
        public=inputs.public[:KNOWN],
        clients=[client],
        settings=AuditSettings(draws=1),
        rng=stream(seed, "audit"),
    )
    first = len(inputs.public) == 1  # there is no last update in round 1, only the model

    def named(text: str) -> str:
        text = text.replace("public vector 1", "the global model")
        return text.replace("public vector 0", "the global model" if first else "the last update")

    return {(method, lie.kind, named(lie.description)): [lie.gain / honest] for lie in audit.lies}


def collect() -> Gains:
    dataset, found = load("mnist"), defaultdict(list)
    for seed in SEEDS:
        config = FederationConfig(
            seed=seed, partition=Partition("dirichlet", alpha=1.0), weighting="size"
        )
        for number, inputs in zip(ROUNDS, observe_rounds(config, dataset, ROUNDS), strict=True):
            client = int(stream(seed, number, "audited").integers(inputs.clients))
            for method in METHODS:
                for lie, gain in gains_of(method, inputs, client, seed).items():
                    found[lie] += gain
            print(f"seed {seed}, round {number} done", flush=True)
    return found


def main() -> None:
    found = collect()
    means = {lie: float(np.mean(gains)) for lie, gains in found.items()}
    lines = [
        "# Lies that pay on MNIST",
        "",
        "Written by `python -m benchmarks.mnist_lies` (after `fedmerit data fetch mnist`). MLP "
        "784-200-10, 100",
        "users, 20 a round, classes per client from a Dirichlet distribution with alpha 1; seeds "
        f"{', '.join(map(str, SEEDS))}, rounds",
        f"{', '.join(map(str, ROUNDS))}, all chosen beforehand, one client drawn in each. The "
        "client tells each lie of the audit, all others",
        "are honest. Gains are relative to the mean score of an honest client of the round, ± "
        "standard error",
        "over rounds and seeds. Lies of the kind *peer* use other clients' reports, which none "
        "should see.",
        "",
        f"## Lies that gain more than {WORTH_NAMING:.0%}",
        "",
        "| score | kind | lie | cases | gain |",
        "|---|---|---|---:|---:|",
        *(row(lie, found) for lie in sorted(means, key=order(means)) if means[lie] > WORTH_NAMING),
        "",
        "## The best lie of each kind",
        "",
        "| score | kind | lie | cases | gain |",
        "|---|---|---|---:|---:|",
    ]
    for method in METHODS:
        for kind in sorted({kind for _, kind, _ in found}):
            of_kind = [lie for lie in found if lie[:2] == (method, kind)]
            lines.append(row(max(of_kind, key=means.__getitem__), found))
    lines += ["", f"{len(found) // len(METHODS)} lies were tried under each score."]
    TARGET.write_text("\n".join([*lines, ""]), encoding="utf-8")
    print("\n".join(lines))


def order(means: dict[tuple[str, str, str], float]):
    return lambda lie: (METHODS.index(lie[0]), -means[lie])


def row(lie: tuple[str, str, str], found: Gains) -> str:
    gains = np.array(found[lie])
    error = float(np.std(gains, ddof=1)) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
    method, kind, text = lie
    return f"| {method} | {kind} | {text} | {len(gains)} | {gains.mean():+.1%} ± {error:.1%} |"


if __name__ == "__main__":
    main()
