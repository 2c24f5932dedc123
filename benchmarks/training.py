"""How much faster a round trains stacked than one client after the other, in one run.

A round of the paper's MNIST: 20 clients, 600 samples each, 5 epochs, batches of 10, MLP 784-200-10.
The data are noise, which costs the same as digits. ``python -m benchmarks.training``
"""

import time

import numpy as np

from fedmerit.behaviours import LocalData
from fedmerit.rng import stream
from fedmerit.simulation.models import build_model
from fedmerit.simulation.network import Network
from fedmerit.simulation.sequential import train_sequential
from fedmerit.simulation.stacked import train_stacked
from fedmerit.simulation.training import LocalTraining, TrainingJob

CLIENTS, SAMPLES, SHAPE, CLASSES = 20, 600, (1, 28, 28), 10
REPEATS = 3


def jobs() -> list[TrainingJob]:
    return [
        TrainingJob(
            LocalData(
                stream(0, client, "x").standard_normal((SAMPLES, *SHAPE), dtype=np.float32),
                stream(0, client, "y").integers(0, CLASSES, SAMPLES),
            ),
            stream(0, client, "batches"),
            stream(0, client, "dropout"),
        )
        for client in range(CLIENTS)
    ]


def main() -> None:
    network = Network(build_model("mlp", SHAPE, CLASSES, stream(0)), SHAPE)
    start, training = network.flatten(), LocalTraining()
    seconds: dict[str, list[float]] = {"stacked": [], "sequential": []}
    updates = {}
    # Alternating, so that a busy moment of the machine hits both.
    for _ in range(REPEATS):
        for name, train in (("stacked", train_stacked), ("sequential", train_sequential)):
            work = jobs()
            begin = time.perf_counter()
            updates[name] = train(network, start, work, training, training.rate(1))
            seconds[name].append(time.perf_counter() - begin)
    for name, runs in seconds.items():
        print(f"{name:<11} {np.median(runs):6.2f} s a round of {CLIENTS} clients")
    ratios = np.array(seconds["sequential"]) / np.array(seconds["stacked"])
    print(f"ratio       {np.median(ratios):6.2f} (lowest {ratios.min():.2f})")
    gap = np.abs(updates["stacked"] - updates["sequential"]).max()
    print(f"largest difference between the updates: {gap:.1e}")


if __name__ == "__main__":
    main()
