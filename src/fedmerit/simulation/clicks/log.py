"""From events to what a model may see: dense ids, histories, and a split by time."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import DataError, UnknownNameError
from fedmerit.simulation.clicks.events import Events, Ids
from fedmerit.simulation.data.cache import array_digest
from fedmerit.validation import check_count

TRAIN, VALID, TEST = 0, 1, 2
SPLITS = ("time", "user")
_TRAIN_SHARE, _VALID_SHARE = 0.8, 0.1
ITEM, CONTEXT, FIRST_HISTORY = 0, 1, 2


@dataclass(frozen=True)
class LogSettings:
    """How events become a log.

    Attributes
    ----------
    history : int
        How many liked items a user's history shows.
    split : str
        "time": the first 80 % of all events train, the next 10 % validate, the last 10 % test.
        "user": the same within every user, for logs in which most users come once.
    least_events : int
        Users with fewer events are left out.
    most_events : int or None
        Only so many of a user's latest events are kept.
    """

    history: int = 20
    split: str = "time"
    least_events: int = 1
    most_events: int | None = None

    def __post_init__(self) -> None:
        check_count("history", self.history, least=1)
        check_count("least_events", self.least_events, least=1)
        if self.most_events is not None:
            check_count("most_events", self.most_events, least=self.least_events)
        if self.split not in SPLITS:
            raise UnknownNameError.of("split", self.split, SPLITS)


@dataclass(frozen=True)
class ClickLog:
    """A click log ready to train on, ordered by user and time.

    Attributes
    ----------
    name : str
    user : (n,) int64
        0 to ``users - 1``.
    x : (n, 2 + history) int32
        Item (from 1), context (from 0), then the items the user liked before, newest first; 0 where
        there are none.
    label, time : (n,) int64
    part : (n,) int8
        TRAIN, VALID or TEST.
    category : (items + 1,) int32
        Category of each item, from 1; 0 for unknown and for "no item".
    users, items, categories, contexts : int
    """

    name: str
    user: Ids
    x: NDArray[np.int32]
    label: Ids
    time: Ids
    part: NDArray[np.int8]
    category: NDArray[np.int32]
    users: int
    items: int
    categories: int
    contexts: int

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that is trained and tested on."""
        return array_digest(vars(self), ("user", "x", "label", "time", "part", "category"))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each column of `x` can take."""
        history = self.x.shape[1] - FIRST_HISTORY
        return (self.items + 1, self.contexts, *[self.items + 1] * history)

    def rows(self, part: int) -> Ids:
        """Return the rows of a part."""
        return np.flatnonzero(self.part == part).astype(np.int64)


def build_log(name: str, events: Events, settings: LogSettings | None = None) -> ClickLog:
    """Index users, items and contexts, look up histories, and split by time.

    A history holds what the user liked strictly before the event: nothing of the event itself, of
    the same moment or of later is in any feature.
    """
    settings = LogSettings() if settings is None else settings
    kept = _chosen(events, settings)
    if kept.size == 0:
        raise DataError(f"{name} has no user with {settings.least_events} events")
    users, user = np.unique(events.user[kept], return_inverse=True)
    mine = np.isin(events.earlier_user, users)
    earlier_user = np.searchsorted(users, events.earlier_user[mine])
    # The catalogue: everything shown to or liked by the users that are kept.
    items = np.unique(np.concatenate([events.item[kept], events.earlier_item[mine]]))
    item = np.searchsorted(items, events.item[kept]) + 1
    contexts, context = np.unique(events.context[kept], return_inverse=True)
    label, time = events.label[kept], events.time[kept]
    history = _histories(
        (user, item, label, time),
        (earlier_user, np.searchsorted(items, events.earlier_item[mine]) + 1),
        settings.history,
    )
    categories, category = _categories(events, items)
    return ClickLog(
        name=name,
        user=user.astype(np.int64),
        x=np.column_stack([item, context, history]).astype(np.int32),
        label=label,
        time=time,
        part=_split(user, time, settings.split),
        category=category,
        users=len(users),
        items=len(items),
        categories=categories,
        contexts=len(contexts),
    )


def _chosen(events: Events, settings: LogSettings) -> Ids:
    """Return the events to keep, by user and time; equal times stay in the order of the file."""
    order = np.lexsort((np.arange(len(events)), events.time, events.user))
    _, first, count = np.unique(events.user[order], return_index=True, return_counts=True)
    from_end = np.repeat(first + count, count) - np.arange(len(order))
    kept = np.repeat(count >= settings.least_events, count)
    if settings.most_events is not None:
        kept &= from_end <= settings.most_events
    return order[kept].astype(np.int64)


def _histories(
    events: tuple[Ids, Ids, Ids, Ids], earlier: tuple[Ids, Ids], length: int
) -> NDArray[np.int64]:
    """Return the items liked before each event, (n, length), newest first, 0 where none."""
    user, item, label, time = events
    moments, moment = np.unique(time, return_inverse=True)
    span = len(moments) + 1  # moment 0 is "before the log begins"
    liked = label == 1
    keys = np.concatenate([earlier[0] * span, user[liked] * span + moment[liked] + 1])
    things = np.concatenate([earlier[1], item[liked]])
    order = np.argsort(keys, kind="stable")
    keys, things = keys[order], things[order]
    begin = np.searchsorted(keys, user * span, side="left")
    end = np.searchsorted(keys, user * span + moment + 1, side="left")
    places = end[:, None] - 1 - np.arange(length)
    padded = np.append(things, 0)
    history: NDArray[np.int64] = padded[np.where(places >= begin[:, None], places, len(things))]
    return history


def _categories(events: Events, items: Ids) -> tuple[int, NDArray[np.int32]]:
    category = np.zeros(len(items) + 1, dtype=np.int32)
    known = np.isin(events.known_item, items)
    if not known.any():
        return 0, category
    names, numbers = np.unique(events.known_category[known], return_inverse=True)
    category[np.searchsorted(items, events.known_item[known]) + 1] = numbers + 1
    return len(names), category


def _split(user: Ids, time: Ids, split: str) -> NDArray[np.int8]:
    """Give every event its part; events of one moment are never put apart by "time"."""
    if split == "time":
        bounds = np.quantile(time, (_TRAIN_SHARE, _TRAIN_SHARE + _VALID_SHARE), method="lower")
        return np.searchsorted(bounds, time, side="left").astype(np.int8)
    _, first, count = np.unique(user, return_index=True, return_counts=True)
    place = (np.arange(len(user)) - np.repeat(first, count) + 0.5) / np.repeat(count, count)
    return np.searchsorted((_TRAIN_SHARE, _TRAIN_SHARE + _VALID_SHARE), place).astype(np.int8)
