"""How merit's ranking depends on how long clients train in a round, on digits.

`python -m checks.studies.local_work` writes the table of docs/results/local-work.md: rank
correlations with the true order in the set-ups of `fedmerit benchmark contribution`, for more and
more local epochs.
"""

from dataclasses import replace

import numpy as np

from checks import ROOT
from checks.pages.parts import write_parts
from fedmerit.experiments.benchmark.base import SCORERS_MODULE, Setting
from fedmerit.experiments.benchmark.contribution.benchmark import TRAINING, Contribution
from fedmerit.experiments.fingerprint import Sources
from fedmerit.simulation.data.datasets import load

PAGE = ROOT / "docs" / "results" / "local-work.md"
SEEDS = range(310, 320)
EPOCHS = (2, 5, 10, 20)
SETUPS = ("label noise", "quantity", "classes")
SCORERS = ("merit", "cosine", "norm", "shapley")


def main() -> None:
    data = load("digits", None)
    lines = [
        f"| local epochs | score | {' | '.join(SETUPS)} |",
        f"|---:|---|{'---:|' * len(SETUPS)}",
    ]
    for epochs in EPOCHS:
        benchmark = Contribution(replace(TRAINING, epochs=epochs))
        rows = [row for seed in SEEDS for row in benchmark.run(seed, Setting(data))]
        for scorer in SCORERS:
            found = [
                [row.truth for row in rows if (row.setup, row.scorer) == (setup, scorer)]
                for setup in SETUPS
            ]
            cells = " | ".join(f"{np.mean(values):.2f} ({np.std(values):.2f})" for values in found)
            lines.append(f"| {epochs} | {scorer} | {cells} |")
            print(lines[-1], flush=True)
    write_parts(PAGE, {"table": "\n".join(lines)}, Sources.of(main, SCORERS_MODULE))


if __name__ == "__main__":
    main()
