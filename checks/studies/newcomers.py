"""What informed riders earn whom nobody has seen before, so that evidence over rounds is silent.

`python -m checks.studies.newcomers` writes the table of docs/results/newcomers.md; MNIST must have
been fetched. The federation is that of `fedmerit benchmark attacks`; nobody is named for what was
seen in earlier rounds, as if the riders had joined in round 4, from which on they can forecast.
"""

from dataclasses import replace
from itertools import product

import numpy as np

from checks import ROOT
from checks.pages.parts import write_parts
from fedmerit.behaviours import Assignment, Informed
from fedmerit.experiments.benchmark.attacks.benchmark import FULL, PARTITIONS, judge, run_federation
from fedmerit.experiments.benchmark.panel import Panel
from fedmerit.experiments.fingerprint import Sources
from fedmerit.server import RoundRules
from fedmerit.simulation.data.datasets import load

PAGE = ROOT / "docs" / "results" / "newcomers.md"
SEEDS = (500, 501, 502)
RIDERS = (1, 3, 6, 9)


def main() -> None:
    data = load("mnist", None)
    lines = ["| partition | riders of 20 | reward | each seed | weight | reports paid |"]
    lines.append("|---|---:|---:|---|---:|---:|")
    for partition, count in product(PARTITIONS, RIDERS):
        rewards, weights, paid = [], [], []
        for seed in SEEDS:
            scorer, rider = Panel(naming=0, heard={"merit": []}), Informed()
            config = replace(
                FULL,
                seed=seed,
                partition=PARTITIONS[partition],
                behaviours=Assignment(((count / FULL.users, rider),)),
                rules=RoundRules(scorer),
            )
            _, bad = run_federation(config, data, rider, lambda _: None)
            results = scorer.heard["merit"]
            told = judge(results, bad, flags=True)
            rewards.append(told.reward)
            weights.append(told.weight)
            paid.append(np.mean([(r.eligible & (r.scores > 0))[bad].mean() for r in results[3:]]))
        each = ", ".join(f"{value:,.2f}" for value in rewards)
        lines.append(
            f"| {partition} | {count} | {np.mean(rewards):,.2f} | {each} | {np.mean(weights):.2f} "
            f"| {np.mean(paid):.0%} |"
        )
        print(lines[-1], flush=True)
    write_parts(PAGE, {"table": "\n".join(lines)}, Sources.of(main, Informed))


if __name__ == "__main__":
    main()
