"""Tasks on Fashion-MNIST: batch normalisation, residual blocks, attention, unequal and equal sizes.

The images are those of a folder with the four IDX files, of the cache, or of Debian's package
(`fedmerit.simulation.data.datasets.SOURCES`).
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedmerit.behaviours import LocalData
from fedmerit.experiments.benchmark.models.tasks import networks
from fedmerit.experiments.benchmark.models.tasks.task import Task, Training, take
from fedmerit.experiments.benchmark.models.training import make_module
from fedmerit.rng import stream
from fedmerit.simulation.data.datasets import Dataset, load
from fedmerit.simulation.data.partition import dirichlet, iid

HELD_OUT = 2000  # images of the test set
CLASSES = 10
LEAST = 20  # images of a client


def fashion(folder: Path | None) -> Dataset:
    """Load Fashion-MNIST from `folder` if its files are there, or from where it is known to be."""
    given = folder is not None and any(folder.glob("*-ubyte*"))
    return load("fashion-mnist", folder if given else None)


def sampled(
    seed: int, count: int, folder: Path | None, *, halved: bool
) -> tuple[LocalData, LocalData]:
    """Draw `count` images to train on and some to hold out; `halved` to 14 x 14 pixels."""
    data = fashion(folder)
    rng = stream(seed, "models", "fashion")
    chosen = rng.permutation(len(data.train_y))[:count]
    kept = rng.permutation(len(data.test_y))[:HELD_OUT]
    parts = ((data.train_x[chosen], data.train_y[chosen]), (data.test_x[kept], data.test_y[kept]))
    train, test = (LocalData(halve(x) if halved else x, y) for x, y in parts)
    return train, test


def halve(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Average squares of two by two pixels."""
    samples, channels, height, width = pixels.shape
    cut = pixels.reshape(samples, channels, height // 2, 2, width // 2, 2)
    halved: NDArray[np.float32] = cut.mean(axis=(3, 5), dtype=np.float32)
    return halved


def batch_norm(seed: int, quick: bool, folder: Path | None) -> Task:
    """Return a convolutional network with batch normalisation under label skew."""
    return _skewed(
        "batch-norm",
        "CNN with batch normalisation, 28 x 28 pixels",
        lambda: networks.convolutional(CLASSES),
        sampled(seed, 2500 if quick else 5000, folder, halved=False),
        Training(rate=0.05, momentum=0.9),
        seed,
    )


def residual(seed: int, quick: bool, folder: Path | None) -> Task:
    """Return a residual network with group normalisation under label skew."""
    return _skewed(
        "residual",
        "residual network with group normalisation, 14 x 14 pixels",
        lambda: networks.residual(CLASSES),
        sampled(seed, 1500 if quick else 3000, folder, halved=True),
        Training("adam", rate=3e-3),
        seed,
        clients=10,
    )


def vision(seed: int, quick: bool, folder: Path | None) -> Task:
    """Return a vision transformer under label skew."""
    return _skewed(
        "vision",
        "vision transformer, 16 patches of 7 x 7 pixels",
        lambda: networks.VisionTransformer(28, 7, CLASSES),
        sampled(seed, 1500 if quick else 3000, folder, halved=False),
        Training("adam", rate=2e-3),
        seed,
        clients=10,
    )


def unequal(seed: int, quick: bool, folder: Path | None) -> Task:
    """Return a perceptron whose clients hold 50 to 3,000 images of the same kind."""
    sizes = np.geomspace(50, 1000 if quick else 3000, 12).astype(int)
    train, held_out = sampled(seed, int(sizes.sum()), folder, halved=True)
    parts = np.split(np.arange(len(train.y)), np.cumsum(sizes)[:-1])
    return Task(
        name="unequal",
        about=f"MLP 196-64-10, Fashion-MNIST halved, {len(sizes)} IID clients with {sizes[0]} to "
        f"{sizes[-1]} images",
        module=make_module(lambda: networks.perceptron(196, 64, CLASSES), _first(seed)),
        clients=tuple(take(train, part) for part in parts),
        held_out=held_out,
        classes=CLASSES,
        training=Training(rate=0.1),
    )


def identical(seed: int, quick: bool, folder: Path | None) -> Task:
    """Return a perceptron with 6,634 parameters and twelve clients nobody can tell apart."""
    clients, each = 12, 200 if quick else 400
    train, held_out = sampled(seed, clients * each, folder, halved=True)
    parts = iid(clients * each, clients, stream(seed, "models", "partition"))
    return Task(
        name="identical",
        about=f"MLP 196-32-10, Fashion-MNIST halved, {clients} IID clients with {each} images",
        module=make_module(lambda: networks.perceptron(196, 32, CLASSES), _first(seed)),
        clients=tuple(take(train, part) for part in parts),
        held_out=held_out,
        classes=CLASSES,
        training=Training(rate=0.1, epochs=2),
        rounds=12,
    )


def _skewed(
    name: str,
    about: str,
    make: Callable[[], nn.Module],
    data: tuple[LocalData, LocalData],
    training: Training,
    seed: int,
    clients: int = 20,
) -> Task:
    """Split every label over the clients in proportions drawn with alpha 0.5."""
    train, held_out = data
    parts = dirichlet(train.y, clients, stream(seed, "models", "partition"), alpha=0.5, least=LEAST)
    return Task(
        name=name,
        about=f"{about}, Fashion-MNIST, {clients} clients, Dirichlet 0.5",
        module=make_module(make, _first(seed)),
        clients=tuple(take(train, part) for part in parts),
        held_out=held_out,
        classes=CLASSES,
        training=training,
    )


def _first(seed: int) -> np.random.Generator:
    """Return the stream of the model before the first round."""
    return stream(seed, "models", "module")
