"""A small federation for a server: clients that share a direction, riders that do not."""

import numpy as np

from fedmerit import Server

CLIENTS = ("ann", "bob", "cat", "dan", "eve")
SHAPES = {"in.weight": (60, 80), "in.bias": (60,), "out.weight": (40, 60), "out.bias": (40,)}
PARAMETERS = sum(int(np.prod(shape)) for shape in SHAPES.values())


def cut(vector, shapes=None):
    """A vector as arrays by name."""
    arrays, start = {}, 0
    for name, shape in (SHAPES if shapes is None else shapes).items():
        size = int(np.prod(shape))
        arrays[name] = vector[start : start + size].reshape(shape)
        start += size
    return arrays


def updates(number, clients=CLIENTS, parameters=PARAMETERS, rider="eve"):
    """Updates of round `number`: news that all share, and a part of one's own; `rider` has none."""
    news = np.random.default_rng(number).normal(size=parameters)
    sent = {}
    for client in clients:
        own = np.random.default_rng([number, *client.encode()]).normal(size=parameters)
        sent[client] = 0.01 * (own if client == rider else news + own)
    return {client: update.astype(np.float32) for client, update in sent.items()}


def model(parameters=PARAMETERS):
    return np.random.default_rng(99).normal(size=parameters).astype(np.float32)


def facts(result):
    """Everything that a round says of clients; NaN compares equal as text."""
    return {
        client: (repr(result.scores[client]), repr(result.weights[client]), result.flags[client])
        for client in result.scores
    } | {"paid": dict(result.payments), "rejected": dict(result.rejected)}


def run(server, rounds, first=1, **options):
    return [
        facts(server.settle(updates=updates(n), **options)) for n in range(first, first + rounds)
    ]


def new(**settings):
    return Server(model(), **{"seed": 5, **settings})
