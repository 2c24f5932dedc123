"""A round's local training, together and as a plain PyTorch loop; and what scoring adds to it.

A round of the paper's MNIST: 20 clients, 600 samples each, 5 epochs, batches of 10, MLP 784-200-10;
and of LeNet-5 with Adam, one epoch, batches of 32. The data are noise, which costs the same as
digits.
"""

from functools import partial

import numpy as np

import fedmerit
from checks.speed.timing import Part, medians
from fedmerit.behaviours import LocalData
from fedmerit.rng import stream
from fedmerit.simulation.training.local import train_together
from fedmerit.simulation.training.models import build_model
from fedmerit.simulation.training.network import Network
from fedmerit.simulation.training.sequential import train_sequential
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob
from fedmerit.simulation.training.stacked import train_stacked

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


def lenet_seconds() -> dict[str, float]:
    """Return how long LeNet-5 takes in every way."""
    network = Network(build_model("lenet5", SHAPE, CLASSES, stream(0)), SHAPE)
    training = LocalTraining(epochs=1, batch_size=32, optimiser="adam", learning_rate=0.001)
    given = (network, network.flatten(), jobs(), training, training.rate(1))
    ways = {"kernel": train_together, "stacked": train_stacked, "sequential": train_sequential}
    return medians({name: partial(way, *given) for name, way in ways.items()}, repeats=REPEATS)


def measure() -> Part:
    """Return this part of the report."""
    network = Network(build_model("mlp", SHAPE, CLASSES, stream(0)), SHAPE)
    start, training, work = network.flatten(), LocalTraining(), jobs()
    rate = training.rate(1)
    updates = train_together(network, start, work, training, rate)
    scores = fedmerit.score(updates, method="exact", rng=0).scores
    # The jobs' streams run on from one repeat to the next, which costs the same.
    seconds = medians(
        {
            "kernel": partial(train_together, network, start, work, training, rate),
            "stacked": partial(train_stacked, network, start, work, training, rate),
            "sequential": partial(train_sequential, network, start, work, training, rate),
            "scoring": partial(fedmerit.score, updates, method="exact", rng=1),
            "aggregation": partial(fedmerit.aggregate, updates, fedmerit.weights(scores)),
        },
        repeats=REPEATS,
    )
    lenet = lenet_seconds()
    share = (seconds["scoring"] + seconds["aggregation"]) / seconds["kernel"]
    lines = [
        f"## A round of local training, {CLIENTS} clients with {SAMPLES} samples",
        "",
        "| way | MLP: seconds | times as fast as the plain loop | LeNet-5: seconds | times |",
        "|---|---|---|---|---|",
        *(
            f"| {label} | {seconds[name]:.2f} | {seconds['sequential'] / seconds[name]:.1f} "
            f"| {lenet[name]:.2f} | {lenet['sequential'] / lenet[name]:.1f} |"
            for name, label in (
                ("sequential", "plain PyTorch loop, one client after the other"),
                ("stacked", "clients stacked, batched products"),
                ("kernel", "the model's own kernel, one client per core (what a run uses)"),
            )
        ),
        "",
        f"Scoring all pairs (exact) and aggregating take {share:.1%} of the MLP's time.",
    ]
    ratios = {
        "training, ours / plain loop": seconds["kernel"] / seconds["sequential"],
        "training LeNet-5, ours / plain loop": lenet["kernel"] / lenet["sequential"],
    }
    return Part(lines, ratios)


if __name__ == "__main__":
    print("\n".join(measure().lines))
