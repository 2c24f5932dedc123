"""What honesty and lies pay on MNIST: ``python -m checks.studies.mnist_rewards`` writes two pages.

A federation as in the paper trains; in some of its rounds, one client after the other is made to
send something else, the others staying honest, and the round is scored and paid again. Needs
``fedmerit data fetch mnist``.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checks import ROOT
from checks.studies import mnist_lies
from checks.studies.real_rounds import METHODS, ROUNDS, SEEDS, RealRound, real_rounds
from checks.studies.recipes import dishonest_reports
from fedmerit.experiments.benchmark.base import BEHAVIOURS_MODULE
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.incentive.rewards import PositiveShare, pay_round
from fedmerit.simulation.config import Partition

AUDITED = 4  # clients in each round
RULE = PositiveShare(budget=100_000)
TRUTH = "truth"
PARTITIONS = {
    "as in the paper, two label-sorted shards per client": Partition("shards"),
    "classes per client from a Dirichlet distribution, alpha 1": Partition("dirichlet", alpha=1.0),
}
SEARCHED = "dirichlet"  # with label-sorted shards, merit has no honest score to compare a lie with
TARGET = ROOT / "docs" / "results" / "mnist-rewards.md"


@dataclass(frozen=True)
class Case:
    """What one client (of a round and seed: its place) earned with one report under one score."""

    method: str
    report: str
    place: tuple[int, int, int]
    reward: int


def cases(partition: Partition, gains: mnist_lies.Gains) -> Iterator[Case]:
    for taken in real_rounds(partition):
        if partition.kind == SEARCHED:
            mnist_lies.add_gains(gains, taken, taken.audited(AUDITED)[0])
        for client in taken.audited(AUDITED):
            own, place = taken.inputs.updates[client], (taken.seed, taken.number, client)
            reports = {TRUTH: own, **dict(dishonest_reports(taken, client))}
            for name, report in reports.items():
                for method, reward in rewards(taken, client, report).items():
                    yield Case(method, name, place, reward)


def rewards(taken: RealRound, client: int, report: np.ndarray) -> dict[str, int]:
    ids = [f"{index:02}" for index in range(taken.inputs.clients)]
    return {
        method: pay_round(RULE, result, ids).amounts[client]
        for method, result in taken.scored(client, report).items()
    }


def table(found: list[Case]) -> list[str]:
    """Return one row per report: mean reward and gain over the truth, with standard errors."""
    amounts = {(case.method, case.report, case.place): case.reward for case in found}
    reports = list(dict.fromkeys(case.report for case in found))
    header = "".join(f" {method} | gain | better |" for method in METHODS)
    lines = [f"| report | cases |{header}", f"|---|---:|{'---:|' * 3 * len(METHODS)}"]
    for report in reports:
        places = [p for m, r, p in amounts if (m, r) == (METHODS[0], report)]
        cell = report.replace("|", "\\|")
        row = f"| {cell} | {len(places)} |"
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
    lines = [
        "# What honesty pays on MNIST",
        "",
        "Written by `python -m checks.studies.mnist_rewards` (after `fedmerit data fetch mnist`). "
        "The paper's",
        f"federation: MLP 784-200-10, 100 users, 20 a round. Seeds {listed(SEEDS)}, rounds "
        f"{listed(ROUNDS)}, all chosen",
        f"beforehand; {AUDITED} clients drawn in each round. One client at a time sends the report "
        "in the first",
        f"column, all others are honest, and {RULE.budget:,} units are shared by the positive part "
        "of the score, so",
        f"that an equal share would be {RULE.budget // 20:,}.",
        "",
        "Reports are the simulator's behaviours (`fedmerit.behaviours.registry` says what each "
        "sends).",
        "",
        "Means over cases (client, round, seed) ± standard error. *Gain*: over what the same "
        "client earns by",
        "the truth in the same round. *Better*: in how many cases the lie earned more. Reports "
        "made from the",
        "last global update do not exist in round 1. `conditional` is computed on the sample of "
        "parameters",
        "that `merit` looks at. The second way to split the data was added after a first look, "
        "because an earlier",
        "form of `merit` paid hardly anybody under the first.",
    ]
    sources = Sources.of(main, BEHAVIOURS_MODULE)
    gains: mnist_lies.Gains = defaultdict(list)
    for text, partition in PARTITIONS.items():
        found = list(cases(partition, gains))
        lines += ["", f"## Data: {text}", "", *table(found), ""]
        lines += ["Where the truth is not best on average:", "", *exceptions(found)]
        write_page(TARGET, "\n".join(lines), sources)
    mnist_lies.write(gains, sources)


def listed(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))


if __name__ == "__main__":
    main()
