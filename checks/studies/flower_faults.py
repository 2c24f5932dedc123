"""One bad client in Flower: what breaks FedAvg, FedMedian and Krum, and what survives.

``python -m checks.studies.flower_faults`` writes docs/results/flower-faults.md. Real local training
on scikit-learn's digits in an in-process grid: seven clients, one of which is bad in every round.
"""

import contextlib
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedMedian, Krum, Strategy

from checks import ROOT
from fedmerit.behaviours import LocalData
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.flower import FedMerit
from fedmerit.flower.local import LocalGrid
from fedmerit.rng import stream
from fedmerit.simulation.data.datasets import Dataset, load
from fedmerit.simulation.data.partition import iid
from fedmerit.simulation.training.local import train_together
from fedmerit.simulation.training.models import build_model
from fedmerit.simulation.training.network import Network
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob

CLIENTS, ROUNDS, SEED = 7, 4, 0
FIRST_NODE = 100
BAD = FIRST_NODE + CLIENTS - 1
TRAINING = LocalTraining(epochs=2, learning_rate=0.05)
Reply = Message | list[Message] | None


def arrays_of(content: RecordDict) -> dict[str, np.ndarray]:
    """Return the arrays of a message."""
    (record,) = content.array_records.values()
    return {name: array.numpy() for name, array in record.items()}


def content(arrays: Mapping[str, np.ndarray], **metrics: object) -> RecordDict:
    """Return the content of a reply."""
    listed = {name.replace("_", "-"): value for name, value in metrics.items()}
    record = ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})
    return RecordDict({"arrays": record, "metrics": MetricRecord(listed)})  # type: ignore[arg-type]


class Honest:
    """A client that trains; what it would send is also what faults are made from."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, message: Message) -> Reply:
        """Train and reply."""
        return self.reply(message, self.trained(message))

    def reply(self, message: Message, arrays: Mapping[str, np.ndarray]) -> Message:
        """Send `arrays`."""
        return Message(content(arrays, num_examples=self.examples), reply_to=message)

    @property
    def examples(self) -> int:
        """Size of the client's data."""
        return len(_parts()[self.number])

    def trained(self, message: Message) -> dict[str, np.ndarray]:
        """Return the model after local training."""
        data, network = _data(), _network()
        part = _parts()[self.number]
        before = arrays_of(message.content)
        start = np.concatenate([values.reshape(-1) for values in before.values()])
        config = message.content["config"]
        name = (SEED, config["server-round"], self.number)
        job = TrainingJob(
            LocalData(data.train_x[part], data.train_y[part]),
            stream(*name, "batches"),
            stream(*name, "dropout"),
        )
        after = start + train_together(network, start, [job], TRAINING, TRAINING.rate(1))[0]
        return to_arrays(after)


Fault = Callable[[Honest, Message], Reply]


def _edit(change: Callable[[dict[str, np.ndarray]], Mapping[str, np.ndarray]]) -> Fault:
    return lambda client, message: client.reply(message, change(client.trained(message)))


def _examples(**metrics: object) -> Fault:
    return lambda client, message: Message(
        content(client.trained(message), **metrics), reply_to=message
    )


def _first(change: Callable[[np.ndarray], np.ndarray]) -> Fault:
    return _edit(lambda arrays: {**arrays, "layers.0.bias": change(arrays["layers.0.bias"])})


def _twice(client: Honest, message: Message) -> Reply:
    reply = client.reply(message, client.trained(message))
    again = client.reply(message, {k: v * 0 for k, v in client.trained(message).items()})
    return [reply, again]


class _Late:
    """Answers every round with what it made for the round before."""

    def __init__(self) -> None:
        self.kept: Message | None = None

    def __call__(self, client: Honest, message: Message) -> Reply:
        late, self.kept = self.kept, client.reply(message, client.trained(message))
        return late


class _Stale:
    """Replays the last global update instead of training."""

    def __init__(self) -> None:
        self.last: dict[str, np.ndarray] | None = None

    def __call__(self, client: Honest, message: Message) -> Reply:
        now = arrays_of(message.content)
        last, self.last = self.last or now, now
        return client.reply(message, {name: 2 * now[name] - last[name] for name in now})


def _raises(_client: Honest, _message: Message) -> Reply:
    raise RuntimeError("the disk is full")


def _two_records(client: Honest, message: Message) -> Reply:
    both = content(client.trained(message), num_examples=client.examples)
    both["more"] = ArrayRecord({"x": Array(np.ones(3))})
    return Message(both, reply_to=message)


def _no_metrics(client: Honest, message: Message) -> Reply:
    only = content(client.trained(message))
    del only["metrics"]
    return Message(only, reply_to=message)


def _lying_header(client: Honest, message: Message) -> Reply:
    honest = content(client.trained(message), num_examples=client.examples)
    (record,) = honest.array_records.values()
    array = record["layers.0.bias"]
    claimed = array.data.replace(b"(64,)", b"(9999999999999,)").replace(b" " * 11 + b"\n", b"\n")
    record["layers.0.bias"] = Array("float32", array.shape, array.stype, claimed)
    return Message(honest, reply_to=message)


# Made anew for every run: some of them remember.
FAULTS: dict[str, Callable[[], Fault]] = {
    "NaN in one array": lambda: _first(lambda v: v * np.nan),
    "one infinity": lambda: _first(lambda v: np.r_[v[:-1], np.inf].astype(v.dtype)),
    "wrong length": lambda: _first(lambda v: v[:-3]),
    "shape (1,), which broadcasts": lambda: _first(lambda v: v[:1] + np.float32(100)),
    "square array transposed": lambda: _edit(
        lambda a: {**a, "layers.0.weight": np.ascontiguousarray(a["layers.0.weight"].T)}
    ),
    "float64 for float32": lambda: _first(lambda v: v.astype(np.float64)),
    "integers for floats": lambda: _first(lambda v: v.astype(np.int64)),
    "missing array": lambda: _edit(lambda a: {k: a[k] for k in list(a)[:-1]}),
    "extra array": lambda: _edit(lambda a: {**a, "extra": np.ones(3, dtype=np.float32)}),
    "renamed array": lambda: _edit(lambda a: {k + "_": v for k, v in a.items()}),
    "no arrays": lambda: _edit(lambda _: {}),
    "two array records": lambda: _two_records,
    "array that claims to be huge": lambda: _lying_header,
    "update 1e12 times too long": lambda: _edit(
        lambda a: {k: v * np.float32(1e12) for k, v in a.items()}
    ),
    "num-examples missing": lambda: _examples(loss=1.0),
    "num-examples -1e6": lambda: _examples(num_examples=-1_000_000),
    "num-examples 0": lambda: _examples(num_examples=0),
    "num-examples NaN": lambda: _examples(num_examples=math.nan),
    "num-examples 1e15": lambda: _examples(num_examples=10**15),
    "num-examples a list": lambda: _examples(num_examples=[1, 2]),
    "no metrics": lambda: _no_metrics,
    "two replies": lambda: _twice,
    "replies to the round before": _Late,
    "client raises": lambda: _raises,
    "silent": lambda: lambda _client, _message: None,
    "stale replay": _Stale,
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its accuracy, or what stopped it."""

    accuracy: float = math.nan
    error: str = ""
    finite: bool = True

    def text(self, honest: float) -> str:
        """Return the table's cell."""
        if self.error:
            return f"**run dies** ({self.error})"
        if not self.finite:
            return "**model not finite**"
        mark = "**" if self.accuracy < honest - 0.02 else ""
        return f"{mark}{self.accuracy:.3f}{mark}"


def run(strategy: Strategy, fault: Fault | None, rounds: int = ROUNDS) -> Outcome:
    """Run a federation in which the last client has `fault`."""
    nodes: dict[int, Callable[[Message], Reply]] = {}
    for number in range(CLIENTS):
        client = Honest(number)
        nodes[FIRST_NODE + number] = client
        if fault is not None and FIRST_NODE + number == BAD:
            nodes[BAD] = lambda message, client=client: fault(client, message)  # type: ignore[misc]
    initial = ArrayRecord({n: Array(v) for n, v in to_arrays(_network_start()).items()})
    try:
        with _quiet():
            result = strategy.start(LocalGrid(nodes), initial, num_rounds=rounds)
        after = np.concatenate([a.numpy().reshape(-1) for a in result.arrays.values()])
        if after.shape != _network_start().shape:
            return Outcome(error="model of another shape")
        if not np.isfinite(after).all():
            return Outcome(finite=False)
        data = _data()
        accuracy = _network().evaluate(after.astype(np.float32), data.test_x, data.test_y)[1]
        return Outcome(accuracy)
    except Exception as error:  # what is measured here
        return Outcome(error=type(error).__name__)


def strategies() -> dict[str, Strategy]:
    """Return the strategies to compare, fresh."""
    with _quiet():
        return {
            "FedAvg": FedAvg(fraction_evaluate=0.0),
            "FedMedian": FedMedian(fraction_evaluate=0.0),
            "Krum": Krum(fraction_evaluate=0.0, num_malicious_nodes=1),
            "FedMerit": FedMerit(fraction_evaluate=0.0, seed=SEED),
        }


def to_arrays(vector: np.ndarray) -> dict[str, np.ndarray]:
    """Cut a vector into the model's arrays."""
    arrays, start = {}, 0
    for name, shape in _network().shapes.items():
        end = start + _network().sizes[name]
        arrays[name] = vector[start:end].reshape(shape)
        start = end
    return arrays


@cache
def _data() -> Dataset:
    return load("digits")


@cache
def _parts() -> list[np.ndarray]:
    return list(iid(len(_data().train_y), CLIENTS, stream(SEED, "partition")))


@cache
def _network() -> Network:
    shape = _data().train_x.shape[1:]
    module = build_model("mlp", shape, 10, stream(SEED, "model"), hidden=64, dropout=0.0)
    return Network(module, shape)


@cache
def _network_start() -> np.ndarray:
    return Network(_network().module, _data().train_x.shape[1:]).flatten()


@contextlib.contextmanager
def _quiet():  # type: ignore[no-untyped-def]
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    with np.errstate(all="ignore"):
        try:
            yield
        finally:
            logger.setLevel(level)


def main() -> None:
    _network_start()
    honest = {name: run(s, None).accuracy for name, s in strategies().items()}
    lines = [
        "# One bad client in Flower",
        "",
        "Written by `python -m checks.studies.flower_faults`: scikit-learn's digits,",
        f"{CLIENTS} clients, {ROUNDS} rounds, seed {SEED}. Flower's own strategies next to",
        "`FedMerit`, all with their defaults (Krum told of one malicious node). One client has the",
        "fault in every round. The figure is the accuracy of the final model; bold is what broke:",
        "the run died, the model is not finite, or it lost more than 0.02 of accuracy to the same",
        "strategy without a fault.",
        "",
        "| fault | " + " | ".join(honest) + " |",
        "|---|" + "---|" * len(honest),
        "| none | " + " | ".join(f"{value:.3f}" for value in honest.values()) + " |",
    ]
    broken = dict.fromkeys(honest, 0)
    for name, fault in FAULTS.items():
        cells = []
        for label, strategy in strategies().items():
            text = run(strategy, fault()).text(honest[label])
            broken[label] += "**" in text
            cells.append(text)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    lines.append("| *broken by* | " + " | ".join(map(str, broken.values())) + " |")
    lines += ["", f"Out of {len(FAULTS)} faults. Surviving is not noticing: a strategy that "]
    lines[-1] += "averages a stale replay or a wrong claim of size"
    lines += ["loses little accuracy here and pays the client all the same.", ""]
    write_page(ROOT / "docs/results/flower-faults.md", "\n".join(lines), Sources.of(main))


if __name__ == "__main__":
    main()
