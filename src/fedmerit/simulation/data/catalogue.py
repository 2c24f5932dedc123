"""All data sets, images and click logs alike, by name."""

from pathlib import Path

from fedmerit.errors import UnknownNameError
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.clicks.sources import (
    CLICK_SOURCES,
    ClickSource,
    click_log_ready,
    fetch_click_log,
    load_click_log,
)
from fedmerit.simulation.data import datasets
from fedmerit.simulation.data.datasets import SOURCES, Dataset, Source

CATALOGUE: dict[str, Source | ClickSource] = {**SOURCES, **CLICK_SOURCES}


def find_source(name: str) -> Source | ClickSource:
    """Return the source called `name`."""
    if name not in CATALOGUE:
        raise UnknownNameError.of("data set", name, CATALOGUE)
    return CATALOGUE[name]


def is_ready(name: str) -> bool:
    """Say whether `load` needs nothing more (a damaged cache is noticed only when read)."""
    source = find_source(name)
    return click_log_ready(source) if isinstance(source, ClickSource) else datasets.is_ready(name)


def fetch(name: str, folder: Path | None = None) -> Path | None:
    """Put a data set into the cache and return the file; None for one that needs no fetching."""
    source = find_source(name)
    if isinstance(source, ClickSource):
        return fetch_click_log(source, folder)
    return datasets.fetch(name, folder)


def load(name: str, folder: Path | None = None) -> Dataset | ClickLog:
    """Load a data set from `folder`, the cache, or out of the package."""
    source = find_source(name)
    if isinstance(source, ClickSource):
        return load_click_log(source, folder)
    return datasets.load(name, folder)
