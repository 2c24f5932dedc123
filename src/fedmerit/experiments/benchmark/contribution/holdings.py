"""Eight clients whose data differ in one known way, and what others hold beside them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours import LocalData
from fedmerit.errors import DataError
from fedmerit.simulation.data.datasets import Dataset

NOISE = tuple(i / 10 for i in range(8))
CLASSES = tuple(range(2, 10))
FEW = 40


@dataclass(frozen=True)
class Holdings:
    """Who holds what.

    Attributes
    ----------
    clients : tuple of LocalData
    truth : tuple of float
        What the clients' data are worth, as ranks: more is better.
    few : LocalData
        A few samples of the same kind that nobody else holds.
    """

    clients: tuple[LocalData, ...]
    truth: tuple[float, ...]
    few: LocalData


class _Deck:
    """Training samples in random order, dealt once each."""

    def __init__(self, dataset: Dataset, rng: np.random.Generator) -> None:
        self._x, self._y = dataset.train_x, dataset.train_y
        self._rng, self._left = rng, rng.permutation(len(self._y))

    def deal(self, count: int, labels: NDArray[np.int64] | None = None) -> LocalData:
        places = np.arange(len(self._left))
        if labels is not None:
            # From anywhere: the top of the deck lacks the labels that were dealt before.
            left = self._y[self._left]
            fits = np.flatnonzero(np.isin(left, labels))
            places = self._rng.permutation(fits)
            # A small draw may miss a label by chance: again.
            while count >= 2 * len(labels) and _kinds(left[places[:count]]) < _kinds(left[fits]):
                places = self._rng.permutation(fits)
        places = places[:count]
        if len(places) < count:
            raise DataError(f"a client needs {count} samples, only {len(places)} are left")
        taken = self._left[places]
        self._left = np.delete(self._left, places)
        return LocalData(self._x[taken], self._y[taken].copy())


def _kinds(labels: NDArray[np.int64]) -> int:
    return len(np.unique(labels))


def unit(dataset: Dataset) -> int:
    """Return how many samples a client holds where all hold as many: 500, fewer of small data."""
    return min(500, len(dataset.train_y) // 14)


def label_noise(dataset: Dataset, rng: np.random.Generator) -> Holdings:
    """Give all clients as many samples, with 0 to 70 % of the labels replaced by wrong ones."""
    deck, clients = _Deck(dataset, rng), []
    for share in NOISE:
        data = deck.deal(unit(dataset))
        wrong = rng.permutation(len(data.y))[: round(share * len(data.y))]
        shift = rng.integers(1, dataset.classes, len(wrong))
        data.y[wrong] = (data.y[wrong] + shift) % dataset.classes
        clients.append(data)
    return Holdings(tuple(clients), tuple(-share for share in NOISE), deck.deal(FEW))


def quantity(dataset: Dataset, rng: np.random.Generator) -> Holdings:
    """Give the clients 100 to 2,000 samples, fewer of small data."""
    sizes = [round(s * unit(dataset) / 500) for s in (100, 200, 300, 500, 800, 1200, 1600, 2000)]
    deck = _Deck(dataset, rng)
    clients = tuple(deck.deal(size) for size in sizes)
    return Holdings(clients, tuple(map(float, sizes)), deck.deal(FEW))


def classes(dataset: Dataset, rng: np.random.Generator) -> Holdings:
    """Give all clients as many samples, of 2 to 9 classes drawn for each."""
    deck = _Deck(dataset, rng)
    clients = tuple(
        deck.deal(_few_classes(dataset), rng.choice(dataset.classes, n, replace=False))
        for n in CLASSES
    )
    return Holdings(clients, tuple(map(float, CLASSES)), deck.deal(FEW))


def rare(dataset: Dataset, rng: np.random.Generator) -> Holdings:
    """Give the last client, alone, one class, half of its samples; the others hold the rest."""
    deck = _Deck(dataset, rng)
    size = _few_classes(dataset)
    its = rng.integers(dataset.classes, size=1)
    common = np.setdiff1d(np.arange(dataset.classes), its)
    parts = [deck.deal(size, common) for _ in range(7)]
    own, shared = deck.deal(size // 2, its), deck.deal(size - size // 2, common)
    mixed = LocalData(np.concatenate([own.x, shared.x]), np.concatenate([own.y, shared.y]))
    return Holdings((*parts, mixed), (0.0,) * 7 + (1.0,), deck.deal(FEW, common))


def _few_classes(dataset: Dataset) -> int:
    # A client with two classes must not need more of them than eight clients can have.
    return min(unit(dataset), 2 * (len(dataset.train_y) // dataset.classes // 8))


SETUPS: dict[str, Callable[[Dataset, np.random.Generator], Holdings]] = {
    "label noise": label_noise,
    "quantity": quantity,
    "classes": classes,
    "rare class": rare,
}
