"""A small federation inside this process: clients that work, replay or send noise."""

import random
from functools import partial

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from fedmerit.flower.local import LocalGrid

CLIENTS = 9
FIRST = 100  # node ids
REPLAYER, NOISY = FIRST + 7, FIRST + 8
MODEL = {"a.weight": (60, 50), "a.bias": (60,), "b.weight": (10, 60), "b.bias": (10,)}


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def initial(**more):
    source = np.random.default_rng(1)
    drawn = {name: source.normal(size=shape).astype("f4") for name, shape in MODEL.items()}
    return record({**drawn, **more})


def plain(arrays):
    return {name: array.numpy() for name, array in arrays.items()}


class Federation:
    """Nodes as functions; remembers every reply, and the models that were sent.

    `memory` is a folder in which clients keep these models: a server may die, they do not.
    """

    def __init__(self, *, riders_from=None, silent=False, first_round=1, memory=None):
        self.riders_from, self.silent, self.first_round = riders_from, silent, first_round
        self.memory = memory
        self.models, self.sent = {}, {}
        nodes = {FIRST + row: partial(self.reply, FIRST + row) for row in range(CLIENTS)}
        self.grid = LocalGrid(nodes)

    def reply(self, node, message):
        if message.metadata.message_type == "evaluate":
            metrics = MetricRecord({"num-examples": 10, "loss": float(node)})
            return Message(RecordDict({"metrics": metrics}), reply_to=message)
        number = message.content["config"]["server-round"] + self.first_round - 1
        model = plain(message.content["arrays"])
        self.models.setdefault(number, model)
        if self.memory is not None:
            np.savez(self.memory / f"{number}.npz", **model)
        rides = (
            self.riders_from is not None
            and node in (REPLAYER, NOISY)
            and number >= self.riders_from
        )
        if rides and self.silent:
            return None
        arrays = self.ride(node, number, model) if rides else self.work(node, number, model)
        metrics = MetricRecord({"num-examples": 10 + node - FIRST, "train_loss": 1.0 + node / 100})
        reply = Message(
            RecordDict({"arrays": record(arrays), "metrics": metrics}), reply_to=message
        )
        self.sent[number, node] = reply
        return reply

    def work(self, node, number, model):
        shared, own = np.random.default_rng(number), np.random.default_rng([number, node])
        arrays = {}
        for name, value in model.items():
            if name not in MODEL:
                arrays[name] = self.count(value, node)
                continue
            step = shared.normal(size=value.shape) + own.normal(size=value.shape)
            arrays[name] = (value + 0.01 * step).astype(value.dtype)
        return arrays

    def count(self, value, node):
        """Train on some batches: what batch normalisation does to its counter."""
        return value + np.asarray(node - FIRST + 1, dtype=value.dtype)

    def ride(self, node, number, model):
        if node == REPLAYER:
            before = self.models.get(number - 1)
            if before is None:
                before = dict(np.load(self.memory / f"{number - 1}.npz"))
            return {name: value + (value - before[name]) for name, value in model.items()}
        own = np.random.default_rng([number, node])
        return {
            name: (value + 0.014 * own.normal(size=value.shape)).astype(value.dtype)
            for name, value in model.items()
        }


def start(strategy, federation, rounds=3, arrays=None, **options):
    """Run with the same draws of Flower's own: the order of nodes, and the noise of privacy."""
    random.seed(4)
    np.random.seed(4)  # noqa: NPY002 - Flower's privacy draws from it
    given = initial() if arrays is None else arrays
    return strategy.start(federation.grid, given, num_rounds=rounds, **options)


def assert_same(ours, theirs):
    ours, theirs = plain(ours), plain(theirs)
    assert list(ours) == list(theirs)
    for name, values in theirs.items():
        np.testing.assert_array_equal(ours[name], values)
        assert ours[name].dtype == values.dtype
