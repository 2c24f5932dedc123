"""Small learners in plain NumPy, as people write them: what each client of a federation holds.

Every learner is a function of the model and a stream that returns the model after local work; a
model is a mapping from name to array. Nothing here is tuned for a task or looks at scores.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Model = dict[str, Floats]
Learn = Callable[[Model, np.random.Generator], Model]


@dataclass(frozen=True)
class Federation:
    """A first model, what each client does with a model, and how many examples it holds."""

    model: Model
    clients: tuple[Learn, ...]
    sizes: tuple[int, ...]
    rounds: int = 25
    a_round: int | None = None  # None: all clients


@dataclass(frozen=True)
class Steps:
    """How a client descends: passes over its data, examples a batch (None: all), and how far."""

    passes: int
    batch: int | None
    rate: float


def descend(
    model: Model,
    examples: int,
    steps: Steps,
    rng: np.random.Generator,
    slope: Callable[[Model, NDArray[np.int64]], Model],
) -> Model:
    """Return the model after plain gradient descent on the rows of a client."""
    model = {name: value.copy() for name, value in model.items()}
    size = examples if steps.batch is None else min(steps.batch, examples)
    for _ in range(steps.passes):
        order = rng.permutation(examples)
        for first in range(0, examples - size + 1, size):
            for name, change in slope(model, order[first : first + size]).items():
                model[name] -= steps.rate * change
    return model


def perceptron(x: Floats, y: NDArray[np.int64], steps: Steps) -> Learn:
    """Train one hidden layer of rectified units, and a softmax."""

    def slope(model: Model, rows: NDArray[np.int64]) -> Model:
        inputs = x[rows]
        hidden = np.maximum(inputs @ model["in"] + model["in.bias"], 0.0)
        wrong = _softmax(hidden @ model["out"] + model["out.bias"])
        wrong[np.arange(len(rows)), y[rows]] -= 1.0
        wrong /= len(rows)
        back = (wrong @ model["out"].T) * (hidden > 0)
        return {
            "in": inputs.T @ back,
            "in.bias": back.sum(axis=0),
            "out": hidden.T @ wrong,
            "out.bias": wrong.sum(axis=0),
        }

    return lambda model, rng: descend(model, len(x), steps, rng, slope)


def logistic(x: Floats, y: NDArray[np.int64], steps: Steps) -> Learn:
    """Train a softmax on the inputs."""

    def slope(model: Model, rows: NDArray[np.int64]) -> Model:
        wrong = _softmax(x[rows] @ model["out"] + model["out.bias"])
        wrong[np.arange(len(rows)), y[rows]] -= 1.0
        wrong /= len(rows)
        return {"out": x[rows].T @ wrong, "out.bias": wrong.sum(axis=0)}

    return lambda model, rng: descend(model, len(x), steps, rng, slope)


def linear(x: Floats, y: Floats, steps: Steps) -> Learn:
    """Train a regression by least squares."""

    def slope(model: Model, rows: NDArray[np.int64]) -> Model:
        return {"out": x[rows].T @ (x[rows] @ model["out"] - y[rows]) / len(rows)}

    return lambda model, rng: descend(model, len(x), steps, rng, slope)


def factors(items: NDArray[np.int64], ratings: Floats, width: int, steps: Steps) -> Learn:
    """Train the shared factors of items, beside the client's own taste, which stays with it."""
    taste = np.full(width, 1 / np.sqrt(width))

    def learn(model: Model, rng: np.random.Generator) -> Model:
        shared = model["items"].copy()
        for _ in range(steps.passes):
            for place in rng.permutation(len(items)):
                item, wrong = items[place], taste @ shared[items[place]] - ratings[place]
                change = wrong * shared[item] + 0.02 * taste
                shared[item] -= steps.rate * (wrong * taste + 0.02 * shared[item])
                taste[:] -= steps.rate * change
        return {"items": shared}

    return learn


def only_largest(learn: Learn, share: float) -> Learn:
    """Send the largest changes only, as clients with little upload do."""

    def kept(model: Model, rng: np.random.Generator) -> Model:
        after = learn(model, rng)
        change = {name: after[name] - model[name] for name in model}
        sizes = np.concatenate([np.abs(part).ravel() for part in change.values()])
        least = np.partition(sizes, -int(share * len(sizes)))[-int(share * len(sizes))]
        return {
            name: model[name] + np.where(np.abs(part) >= least, part, 0.0)
            for name, part in change.items()
        }

    return kept


def private(learn: Learn, ratio: float) -> Learn:
    """Add noise of so many times the length of the update."""

    def noisy(model: Model, rng: np.random.Generator) -> Model:
        after = learn(model, rng)
        length = np.sqrt(sum(np.square(after[name] - model[name]).sum() for name in model))
        deviation = ratio * length / np.sqrt(sum(value.size for value in model.values()))
        return {
            name: value + rng.normal(0, deviation, value.shape) for name, value in after.items()
        }

    return noisy


def first_perceptron(inputs: int, hidden: int, classes: int, rng: np.random.Generator) -> Model:
    """Return the weights that a perceptron starts with."""
    return {
        "in": rng.normal(0, np.sqrt(2 / inputs), (inputs, hidden)),
        "in.bias": np.zeros(hidden),
        "out": rng.normal(0, np.sqrt(1 / hidden), (hidden, classes)),
        "out.bias": np.zeros(classes),
    }


def digits() -> tuple[Floats, NDArray[np.int64]]:
    """Return scikit-learn's images of digits, between 0 and 1, and their labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.data / 16.0, found.target


def _softmax(values: Floats) -> Floats:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares
