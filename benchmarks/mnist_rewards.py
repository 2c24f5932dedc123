"""What honesty pays on MNIST: ``python -m benchmarks.mnist_rewards`` writes the table.

A federation as in the paper trains; in some of its rounds, one client after the other is made to
send something else, the others staying honest, and the round is scored and paid again. Needs
``fedmerit data fetch mnist``.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.recipes import privacy_noise, uninformed
from benchmarks.timing import ROOT
from fedmerit.incentive.paying import pay_round
from fedmerit.incentive.rewards import PositiveShare
from fedmerit.rng import stream
from fedmerit.scorers import SCORERS, make_scorer
from fedmerit.simulation.config import FederationConfig, Partition
from fedmerit.simulation.datasets import load
from fedmerit.simulation.observe import observe_rounds
from fedmerit.types import RoundInputs

SEEDS, ROUNDS, AUDITED = (0, 1, 2), (1, 5, 10), 3
METHODS = ("exact", "conditional", "merit")
RULE = PositiveShare(budget=100_000)
TRUTH = "truth"
PARTITIONS = {
    "shards": "as in the paper, two label-sorted shards per client",
    "dirichlet": "classes per client from a Dirichlet distribution, alpha 1",
}
TARGET = ROOT / "docs" / "results" / "mnist-rewards.md"


@dataclass(frozen=True)
class Case:
    """What one client earned in one round with one report under one score."""

    method: str
    report: str
    place: tuple[int, int, int]
    reward: int


def cases(partition: str) -> Iterator[Case]:
    dataset = load("mnist")
    for seed in SEEDS:
        # Aggregated by size, so that all scores are tried on the same updates.
        config = FederationConfig(seed=seed, partition=Partition(partition), weighting="size")
        for number, inputs in zip(ROUNDS, observe_rounds(config, dataset, ROUNDS), strict=True):
            chosen = stream(seed, number, "audited").choice(inputs.clients, AUDITED, replace=False)
            for client in np.sort(chosen):
                yield from client_cases(inputs, (seed, number, int(client)))
            print(f"{partition}: seed {seed}, round {number} done", flush=True)


def client_cases(inputs: RoundInputs, place: tuple[int, int, int]) -> Iterator[Case]:
    seed, number, client = place
    own, public = inputs.updates[client], inputs.public
    # The loop gives the last global update first, then the model; only the model in round 1.
    model, last = (public[0], None) if len(public) == 1 else (public[1], public[0])
    for method in METHODS:
        yield Case(method, TRUTH, place, reward(method, inputs, place, own))
    for recipe in (*privacy_noise(own), *uninformed(model, last)):
        report = recipe.draw(stream(seed, number, client, recipe.name))
        for method in METHODS:
            yield Case(method, recipe.name, place, reward(method, inputs, place, report))


def reward(
    method: str, inputs: RoundInputs, place: tuple[int, int, int], report: np.ndarray
) -> int:
    seed, number, client = place
    reported = inputs.updates.copy()
    reported[client] = report
    # The same draws whatever is reported: only the report makes a difference.
    result = make_scorer(method).score(
        replace(inputs, updates=reported), stream(seed, number, "scoring")
    )
    ids = [f"{index:02}" for index in range(inputs.clients)]
    return pay_round(RULE, result, ids).amounts[client]


def table(found: list[Case]) -> list[str]:
    """Return one row per report: mean reward and gain over the truth, with standard errors."""
    amounts = {(case.method, case.report, case.place): case.reward for case in found}
    reports = list(dict.fromkeys(case.report for case in found))
    header = "".join(f" {method} | gain | better |" for method in METHODS)
    lines = [f"| report | cases |{header}", f"|---|---:|{'---:|' * 3 * len(METHODS)}"]
    for report in reports:
        places = [p for m, r, p in amounts if (m, r) == (METHODS[0], report)]
        row = f"| {report} | {len(places)} |"
        for method in METHODS:
            paid = np.array([amounts[method, report, place] for place in places], dtype=float)
            truth = np.array([amounts[method, TRUTH, place] for place in places], dtype=float)
            gain, wins = paid - truth, int((paid > truth).sum())
            row += f" {estimate(paid)} |"
            row += " | |" if report == TRUTH else f" {estimate(gain, '+')} | {wins} |"
        lines.append(row)
    return lines


def estimate(values: np.ndarray, sign: str = "") -> str:
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return f"{values.mean():{sign}.0f} ± {error:.0f}"


def exceptions(found: list[Case]) -> list[str]:
    """Name each report that earns more than the truth on average."""
    amounts = {(case.method, case.report, case.place): case.reward for case in found}
    lines = []
    for method in METHODS:
        for report in dict.fromkeys(case.report for case in found if case.report != TRUTH):
            places = [p for m, r, p in amounts if (m, r) == (method, report)]
            lie = sum(amounts[method, report, place] for place in places)
            truth = sum(amounts[method, TRUTH, place] for place in places)
            if lie > truth:
                share = f"{lie / truth:.2f} times the truth" if truth else "the truth earns nothing"
                lines.append(f"- `{method}`: {report} ({share})")
    return lines or ["Nowhere: the truth is best on average under all three scores."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=TARGET)
    output = parser.parse_args().output
    assert set(METHODS) <= set(SCORERS)
    lines = [
        "# What honesty pays on MNIST",
        "",
        "Written by `python -m benchmarks.mnist_rewards` (after `fedmerit data fetch mnist`). "
        "The paper's",
        f"federation: MLP 784-200-10, 100 users, 20 a round. Seeds {listed(SEEDS)}, rounds "
        f"{listed(ROUNDS)}, all chosen",
        f"beforehand; {AUDITED} clients drawn in each round. One client at a time sends the report "
        "in the first",
        f"column, all others are honest, and {RULE.budget:,} units are shared by the positive part "
        "of the score, so",
        f"that an equal share would be {RULE.budget // 20:,}.",
        "",
        "Means over cases (client, round, seed) ± standard error. *Gain*: over what the same "
        "client earns by",
        "the truth in the same round. *Better*: in how many cases the lie earned more. Reports "
        "made from the",
        "last global update do not exist in round 1.",
    ]
    for partition, text in PARTITIONS.items():
        found = list(cases(partition))
        lines += ["", f"## Data: {text}", "", *table(found), ""]
        lines += ["Where the truth is not best on average:", "", *exceptions(found)]
    output.write_text("\n".join([*lines, ""]), encoding="utf-8")
    print("\n".join(lines))


def listed(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))


if __name__ == "__main__":
    main()
