"""The audit's whole catalogue of lies about a float update, tried on updates that were trained."""

import math

import numpy as np

from checks import ROOT
from checks.studies.real_rounds import METHODS, ROUNDS, SEEDS, RealRound
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.incentive.lies import update_lies
from fedmerit.rng import stream

WORTH_NAMING = 0.05
TARGET = ROOT / "docs" / "results" / "mnist-lies.md"

Gains = dict[tuple[str, str, str], list[float]]


def add_gains(found: Gains, taken: RealRound, client: int) -> None:
    """Add the gain of each lie, relative to the mean score of an honest client of the round."""
    updates = taken.inputs.updates
    known, name = (taken.model, "the global model")
    if taken.last is not None:
        known, name = taken.last, "the last global update"
    honest = taken.scored(client, updates[client])
    peers = np.delete(updates, client, axis=0)
    for lie in update_lies(updates[client], known[None], peers):
        report = lie.draw(stream(taken.seed, taken.number, client, lie.description))
        text = lie.description.replace("public vector 0", name)
        for method, result in taken.scored(client, report).items():
            truth = honest[method].scores
            gain = (result.scores[client] - truth[client]) / truth.mean()
            found[method, lie.kind, text].append(float(gain))


def write(found: Gains, sources: Sources) -> None:
    """Write the page; `sources` made what was found."""
    means = {lie: float(np.mean(gains)) for lie, gains in found.items()}
    lines = [
        "# Lies that pay on MNIST",
        "",
        "Written by `python -m checks.studies.mnist_rewards` (after `fedmerit data fetch mnist`). "
        "MLP 784-200-10, 100",
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
    write_page(TARGET, "\n".join(lines), sources)
    print("\n".join(lines))


def order(means: dict[tuple[str, str, str], float]):
    return lambda lie: (METHODS.index(lie[0]), -means[lie])


def row(lie: tuple[str, str, str], found: Gains) -> str:
    gains = np.array(found[lie])
    error = float(np.std(gains, ddof=1)) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
    method, kind, text = lie
    return f"| {method} | {kind} | {text} | {len(gains)} | {gains.mean():+.1%} ± {error:.1%} |"
