"""What FedMerit, FedPCA and MedPCA cost on a Flower server, next to FedAvg, FedMedian and Krum.

``make bench`` measures it, and ``python -m checks.speed server`` it alone; either writes
docs/results/flower-cost.md as well. A grid inside the process: what is timed is the strategy's part
of a round (`configure_train` to `aggregate_train`), with replies that are ready. Peak memory is
that of a fresh process per strategy, above what it holds before the first round; the replies' own
bytes are part of it.
"""

import logging
import os
import time
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedMedian, Krum

from checks import ROOT
from checks.speed.timing import Part, machine, peak_extra_bytes
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.flower import FedMerit, FedPCA, MedPCA
from fedmerit.flower.local import LocalGrid

CLIENTS, ROUNDS, MALICIOUS = 20, 3, 4
STRATEGIES: dict[str, Callable[..., FedAvg]] = {
    "FedAvg": FedAvg,
    "FedMedian": FedMedian,
    "Krum": partial(Krum, num_malicious_nodes=MALICIOUS),
    "FedPCA": FedPCA,
    "MedPCA": MedPCA,
    "FedMerit": FedMerit,
}
# 784-200-10, and 64 layers that together have as many parameters as ResNet-18.
MODELS = {
    "159,010": {"a.weight": 784 * 200, "a.bias": 200, "b.weight": 2000, "b.bias": 10},
    "11 million": {f"layer{i}.weight": 171_875 for i in range(64)},
}


def node(number: int) -> Callable[[Message], Message]:
    """Return a client that adds a shared and an own step to the model, new ones every round."""

    def reply(message: Message) -> Message:
        server_round = int(message.content["config"]["server-round"])  # type: ignore[arg-type]
        rng = np.random.default_rng([server_round, number])
        (record,) = message.content.array_records.values()
        arrays = {}
        for index, (name, array) in enumerate(record.items()):
            value = array.numpy()
            shared, own = 7919 * (64 * server_round + index), int(rng.integers(10_000_000))
            arrays[name] = Array(value + _noise(shared, value.size) + _noise(own, value.size))
        content = {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 100})}
        return Message(RecordDict(content), reply_to=message)

    return reply


def _noise(start: int, size: int) -> np.ndarray:
    """Return a piece of a fixed pool: drawing anew would take longer than what is measured."""
    return _pool()[start % 10_000_000 :][:size]


@cache
def _pool() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(10_200_000, dtype=np.float32) / 100


class Server:
    """A strategy with its model, one round at a time."""

    def __init__(self, name: str, sizes: dict[str, int]) -> None:
        logging.getLogger("flwr").setLevel(logging.CRITICAL)
        self.strategy = STRATEGIES[name](fraction_evaluate=0.0)
        self.grid = LocalGrid({100 + number: node(number) for number in range(1, CLIENTS + 1)})
        self.arrays = ArrayRecord({n: Array(np.zeros(s, np.float32)) for n, s in sizes.items()})
        self.round = 0

    def step(self) -> tuple[float, float]:
        """Run a round and return the processor and wall seconds that the strategy took."""
        self.round += 1
        begin = _clocks()
        messages = self.strategy.configure_train(self.round, self.arrays, ConfigRecord(), self.grid)
        spent = _clocks() - begin
        replies = self.grid.send_and_receive(messages)
        begin = _clocks()
        arrays, _ = self.strategy.aggregate_train(self.round, replies)
        spent += _clocks() - begin
        assert arrays is not None
        self.arrays = arrays
        return float(spent[0]), float(spent[1])


def _clocks() -> np.ndarray:
    return np.array([time.process_time(), time.perf_counter()])


def seconds_of(sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Return the median processor and wall seconds of a round per strategy, taken in turns."""
    servers = {name: Server(name, sizes) for name in STRATEGIES}
    for server in servers.values():
        server.step()  # compiles, and gives the merit score a history
    samples = [{name: server.step() for name, server in servers.items()} for _ in range(ROUNDS)]
    return {name: np.median([turn[name] for turn in samples], axis=0) for name in servers}


def peak(name: str, label: str) -> int:
    """Return the peak of three rounds above what was there before, in bytes."""
    setup = (
        "from checks.speed.flower_cost import MODELS, Server\n"
        f"warm = Server({name!r}, {{'a.weight': 5000}})\nwarm.step(), warm.step()\n"
        f"server = Server({name!r}, MODELS[{label!r}])"
    )
    return peak_extra_bytes(setup, "server.step(), server.step(), server.step()")


def measure() -> Part:
    """Return this part of the report."""
    lines = [
        "## What a strategy costs on a Flower server",
        "",
        f"{CLIENTS} clients, the strategy's part of a round, median of {ROUNDS} rounds after the",
        "first, relative to FedAvg in the same run. Peak memory of three rounds in models' sizes",
        f"(parameters x 4 bytes): the {CLIENTS} replies that Flower hands over are {CLIENTS} of",
        f"them. Measured at a load of {os.getloadavg()[0]:.1f}, with Flower {version('flwr')}.",
        "",
        "| parameters | strategy | processor time / FedAvg's | wall time / FedAvg's "
        "| processor seconds in this run | peak memory, models |",
        "|---|---|---:|---:|---:|---:|",
    ]
    ratios = {}
    for label, sizes in MODELS.items():
        seconds = seconds_of(sizes)
        model = 4 * sum(sizes.values())
        peaks = {name: peak(name, label) / model for name in STRATEGIES}
        for name, value in seconds.items():
            processor, wall = value / seconds["FedAvg"]
            lines.append(
                f"| {label} | {name} | {processor:.1f} | {wall:.1f} | {value[0]:.3f} "
                f"| {peaks[name]:.0f} |"
            )
        ratios[f"server, {label}: FedMerit / FedAvg"] = float(
            seconds["FedMerit"][0] / seconds["FedAvg"][0]
        )
        ratios[f"server, {label}: memory, FedMerit / FedAvg"] = peaks["FedMerit"] / peaks["FedAvg"]
    return Part(lines, ratios)


def write(part: Part) -> None:
    """Write docs/results/flower-cost.md."""
    lines = [
        "# What a strategy costs on a Flower server",
        "",
        f"Written by `make bench` on {machine()}.",
        *part.lines[1:],
        "",
        "A round's training takes seconds to hours, and 20 replies of 11 million parameters are",
        "0.9 GB on the wire. FedMerit keeps the newest model, and of older ones and of clients'",
        "last reports what scores look at: up to some 50,000 parameters of each.",
        "",
    ]
    page = ROOT / "docs/results/flower-cost.md"
    write_page(page, "\n".join(lines), Sources.of(measure))
