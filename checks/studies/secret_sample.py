"""What a client can learn from its pay about the parameters that a server looks at.

``python -m checks.studies.secret_sample``. One client of eight sets a fresh random half of its
report to zero in every round, and notes its score. What it can learn from that is in the difference
of its mean scores with and without a parameter: how well this tells the parameters of the sample
from others (ROC AUC; 0.5: not at all). Beside it the same for a client that is told exactly which
share of the sample it sent.
"""

import argparse

import numpy as np

from fedmerit import Merit, Server

CLIENTS, PARAMETERS, SAMPLE = 8, 20_000, 2_500


def told(values: np.ndarray, sampled: np.ndarray) -> float:
    """Return the chance that a parameter of the sample has a higher value than another."""
    ranks = np.argsort(np.argsort(values))
    inside = int(sampled.sum())
    outside = len(values) - inside
    return float((ranks[sampled].sum() - inside * (inside - 1) / 2) / (inside * outside))


def probe(rounds: int, seed: int) -> tuple[float, float]:
    """Return what scores tell of the sample after so many rounds, and what exact shares would."""
    rng = np.random.default_rng(seed)
    server = Server(np.zeros(PARAMETERS, "f4"), scorer=Merit(sample=SAMPLE), seed=seed)
    positions = server.state.history.view.positions
    assert positions is not None, "the model is larger than the sample"
    sampled = np.isin(np.arange(PARAMETERS), positions)
    halves, scores = np.empty((rounds, PARAMETERS), dtype=bool), np.empty(rounds)
    for number in range(rounds):
        news = rng.normal(size=PARAMETERS)
        own = rng.normal(size=(CLIENTS, PARAMETERS))
        sent = {f"client {n}": (0.01 * (news + row)).astype("f4") for n, row in enumerate(own)}
        halves[number] = rng.random(PARAMETERS) < 0.5
        sent["client 0"] = sent["client 0"] * halves[number]
        scores[number] = server.settle(updates=sent).scores["client 0"]
    exact = halves[:, sampled].mean(axis=1)
    found = [
        told((halves * (values - values.mean())[:, None]).mean(axis=0), sampled)
        for values in (scores, exact)
    ]
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    for seed in range(chosen.seeds):
        by_score, by_share = probe(chosen.rounds, seed)
        print(f"seed {seed}, {chosen.rounds} rounds: scores {by_score:.3f}, shares {by_share:.3f}")


if __name__ == "__main__":
    main()
