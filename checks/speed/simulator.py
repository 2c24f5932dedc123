"""A simulated MNIST round, ours and Flower's with Ray: the same model, samples, batches and test.

Flower's side runs `python -m checks.speed.simulator flower` in a process of its own and averages
(it gives no scores); ours scores with merit and flags as well. The data are noise, which costs the
same as digits.
"""

import os
import re
import statistics
import subprocess
import sys
import time

import numpy as np

from checks import ROOT
from checks.speed.timing import Part
from fedmerit.behaviours import LocalData
from fedmerit.rng import stream
from fedmerit.simulation.config import FederationConfig, Partition
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.training.models import build_model
from fedmerit.simulation.training.network import Network
from fedmerit.simulation.training.sequential import train_sequential
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob

CLIENTS, SAMPLES, TESTS, SHAPE, CLASSES = 20, 600, 10_000, (1, 28, 28), 10
ROUNDS = 3  # the first one, in which everything is started and compiled, is not counted


def data(name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return samples and labels."""
    draws = stream(0, name)
    return (
        draws.standard_normal((count, *SHAPE), dtype=np.float32),
        draws.integers(0, CLASSES, count),
    )


def our_rounds() -> list[float]:
    """Return the seconds of each round of our simulator, everything included."""
    config = FederationConfig(
        users=CLIENTS, per_round=CLIENTS, rounds=ROUNDS, partition=Partition("iid")
    )
    train, test = data("train", CLIENTS * SAMPLES), data("test", TESTS)
    federation = Federation(config, Dataset("noise", *train, *test, CLASSES))
    state, seconds = federation.start(), []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        state, _ = federation.step(state)
        seconds.append(time.perf_counter() - begin)
    return seconds


def flower_rounds() -> None:
    """Run the rounds in Flower and print when each one ended."""
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client, server, training = ClientApp(), ServerApp(), LocalTraining()

    def network() -> Network:
        return Network(build_model("mlp", SHAPE, CLASSES, stream(0)), SHAPE)

    @client.train()
    def train(message: Message, context: Context) -> Message:
        number = int(context.node_config["partition-id"])
        job = TrainingJob(
            LocalData(*data(f"train {number}", SAMPLES)),
            stream(0, number, "batches"),
            stream(0, number, "dropout"),
        )
        model = message.content["arrays"].to_numpy_ndarrays()[0]
        (update,) = train_sequential(network(), model, [job], training, training.rate(1))
        metrics = MetricRecord({"num-examples": SAMPLES})
        content = {"arrays": ArrayRecord([model + update]), "metrics": metrics}
        return Message(RecordDict(content), reply_to=message)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        judge, test = network(), data("test", TESTS)

        def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
            loss, accuracy = judge.evaluate(arrays.to_numpy_ndarrays()[0], *test)
            print(f"round {number} ended {time.perf_counter()}", flush=True)
            return MetricRecord({"loss": loss, "accuracy": accuracy})

        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=CLIENTS)
        initial = ArrayRecord([judge.flatten()])
        strategy.start(grid, initial, num_rounds=ROUNDS, evaluate_fn=evaluate)

    resources = {"num_cpus": 1, "num_gpus": 0.0}
    run_simulation(server, client, CLIENTS, backend_config={"client_resources": resources})


def their_rounds() -> list[float]:
    """Return the seconds of each round of Flower's simulation."""
    quiet = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "FLWR_TELEMETRY_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "RAY_worker_niceness": "0",  # Ray would yield to everything else on the machine
    }
    output = subprocess.run(
        [sys.executable, "-m", "checks.speed.simulator", "flower"],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | quiet,
    ).stdout
    ends = [float(end) for end in re.findall(r"round \d+ ended (\S+)", output)]
    assert len(ends) == ROUNDS + 1, output
    return list(np.diff(ends))


def measure() -> Part:
    """Return this part of the report."""
    before, theirs, after = our_rounds(), their_rounds(), our_rounds()
    ours = statistics.median(before[1:] + after[1:])
    flower = statistics.median(theirs[1:])
    return Part(
        [
            f"## A simulated MNIST round: {CLIENTS} clients, {SAMPLES} samples each",
            "",
            "| engine | rounds per minute |",
            "|---|---|",
            f"| fedmerit's simulator, scored by merit, with evaluation | {60 / ours:.1f} |",
            f"| Flower's simulation with Ray, FedAvg, with evaluation | {60 / flower:.1f} |",
            "",
            f"Ours is {flower / ours:.1f} times as fast. Rounds before the second are not counted.",
        ],
        {"simulated round, ours / Flower's": ours / flower},
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["flower"]:
        flower_rounds()
    else:
        print("\n".join(measure().lines))
