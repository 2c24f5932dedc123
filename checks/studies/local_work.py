"""How merit's ranking depends on how long clients train in a round, on digits.

`python -m checks.studies.local_work` prints rank correlations with the true order in the set-ups of
`fedmerit benchmark contribution`, for more and more local epochs.
"""

from dataclasses import replace

import numpy as np

from fedmerit.experiments.benchmark.base import Setting
from fedmerit.experiments.benchmark.contribution import TRAINING, Contribution
from fedmerit.simulation.datasets import load

SEEDS = range(310, 320)
EPOCHS = (2, 5, 10, 20)
SETUPS = ("label noise", "quantity", "classes")
SCORERS = ("merit", "cosine", "norm", "shapley")


def main() -> None:
    data = load("digits", None)
    print(f"| local epochs | score | {' | '.join(SETUPS)} |\n|---:|---|{'---:|' * len(SETUPS)}")
    for epochs in EPOCHS:
        benchmark = Contribution(replace(TRAINING, epochs=epochs))
        rows = [row for seed in SEEDS for row in benchmark.run(seed, Setting(data))]
        for scorer in SCORERS:
            found = [
                [row.truth for row in rows if (row.setup, row.scorer) == (setup, scorer)]
                for setup in SETUPS
            ]
            cells = " | ".join(f"{np.mean(values):.2f} ({np.std(values):.2f})" for values in found)
            print(f"| {epochs} | {scorer} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
