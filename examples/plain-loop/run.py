"""A federation in a plain loop: no framework, one object. ``python run.py``."""

import numpy as np
from sklearn.datasets import load_digits

import fedmerit

CLINICS, ROUNDS, HIDDEN = 8, 4, 32


def first_model():
    """Return a small network as a mapping from name to array."""
    rng = np.random.default_rng(1)
    return {
        "hidden.weight": rng.normal(0, 0.2, (64, HIDDEN)),
        "hidden.bias": np.zeros(HIDDEN),
        "out.weight": rng.normal(0, 0.2, (HIDDEN, 10)),
        "out.bias": np.zeros(10),
    }


def train(model, x, y, steps=20, rate=0.5):
    """Train on a client's own data and return its model: what a client of yours does."""
    w, a, v, b = (array.copy() for array in model.values())
    for _ in range(steps):
        hidden = np.maximum(x @ w + a, 0)
        logits = hidden @ v + b
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        p /= len(y)
        back = (p @ v.T) * (hidden > 0)
        v, b = v - rate * hidden.T @ p, b - rate * p.sum(axis=0)
        w, a = w - rate * x.T @ back, a - rate * back.sum(axis=0)
    return dict(zip(model, (w, a, v, b), strict=True))


def main():
    """Train, with two clients that do not work, and say who contributed what."""
    rng = np.random.default_rng(0)
    x, y = load_digits(return_X_y=True)
    parts = np.array_split(rng.permutation(len(y)), CLINICS)
    data = {f"clinic {n}": (x[part] / 16, y[part]) for n, part in enumerate(parts)}
    server = fedmerit.Server(first_model(), seed=0)
    before = server.model
    for _ in range(ROUNDS):
        now = server.model
        models = {name: train(now, *part) for name, part in data.items()}
        models["replays"] = {key: 2 * now[key] - before[key] for key in now}
        models["noise"] = {key: now[key] + rng.normal(0, 0.05, now[key].shape) for key in now}
        server.settle(models)
        before = now
    for client, total in server.contributions().items():
        why = "" if total.flag is None else total.flag.words
        told = f"weight {total.weight:.2f}, flagged in {total.flagged} of {total.rounds} rounds"
        print(f"{client}: {told} {why}".rstrip())


if __name__ == "__main__":
    main()
