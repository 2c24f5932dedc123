"""What becomes of DIN with the paper's learning rate of 1.0 over 500 rounds, all honest.

`python -m checks.studies.din_paper_rate kuairand --data-dir FOLDER` prints, for both ways of
averaging rows, the test AUC (mean of ten rounds) and the updates refused because they were not
finite.
"""

from dataclasses import replace

import numpy as np

from checks.studies.click_arguments import chosen_log
from fedmerit.experiments.clicks import BASE, FEDAVG, PLAIN
from fedmerit.experiments.runner import LAST, fitted
from fedmerit.experiments.spec import Experiment, Point
from fedmerit.simulation.federation import Federation

ROUNDS, EVERY, RATE = 500, 100, 1.0


def main() -> None:
    log, seed = chosen_log(seed=0)
    training = replace(BASE.training, learning_rate=RATE)
    base = replace(BASE, rounds=ROUNDS, training=training)
    point, lines = Point(0, ""), (PLAIN, FEDAVG)
    plan = Experiment("rate", "", "", (point,), lines, (seed,), base=base, metric="auc")
    plan = fitted(plan, log)
    print("| rows averaged | seed | round | AUC | refused so far |\n|---|---:|---:|---:|---:|")
    for line in lines:
        federation = Federation(plan.config(line, point, seed), log)
        state, refused = federation.start(), 0
        seen: list[float] = []
        for number in range(1, ROUNDS + 1):
            counts = (number - 1) % EVERY >= EVERY - LAST
            state, record = federation.step(state, evaluate=counts)
            refused += len(record.rejected)
            if counts:
                seen.append(record.metrics["auc"])
            if number % EVERY == 0:
                auc = np.mean(seen[-LAST:])
                print(f"| {line.label} | {seed} | {number} | {auc:.4f} | {refused:,} |", flush=True)


if __name__ == "__main__":
    main()
