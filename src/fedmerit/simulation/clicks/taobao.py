"""Alibaba's two public logs: Taobao UserBehavior, and the display advertising log.

UserBehavior (Tianchi data set 649) has no header and no impressions: ``user, item, category,
behaviour, time``. Page views are the clicks, and every click gets one negative at the same time: an
item drawn evenly from all items of the log, drawn again while it is one the user has clicked by
then. (Items clicked only later may be drawn: that they will be is not known yet.)

Ali_Display_Ad_Click (Tianchi data set 56) has impressions: ``raw_sample.csv`` and
``ad_feature.csv``; the history is what the user clicked before, the context where the ad was.
"""

from pathlib import Path

import numpy as np

from fedmerit.errors import DataError
from fedmerit.rng import stream
from fedmerit.simulation.clicks.events import Events
from fedmerit.simulation.clicks.tables import click, find_file, open_text, read_rows, whole

_BEHAVIOURS = ("pv", "cart", "fav", "buy")
_CLICKED = "pv"
_SAMPLE = ("user", "time_stamp", "adgroup_id", "pid", "nonclk", "clk")
_FIELDS = ("user", "item", "category", "behaviour", "time")


def read_user_behavior(folder: Path) -> Events:
    """Read the one file ``UserBehavior*.csv`` in `folder`, plain or .gz."""
    path = find_file(folder, "UserBehavior*.csv")
    origin = str(path)
    users, items, times = [], [], []
    categories: dict[int, int] = {}
    with open_text(path) as file:
        for line, row in read_rows(file, origin, _FIELDS, names=_FIELDS):
            numbers = [whole(row[i], _FIELDS[i], origin, line) for i in (0, 1, 2, 4)]
            if row[3] not in _BEHAVIOURS:
                raise DataError(
                    f"{origin}, line {line}: behaviour must be one of {', '.join(_BEHAVIOURS)}, "
                    f"got {row[3]!r}"
                )
            categories.setdefault(numbers[1], numbers[2])
            if row[3] == _CLICKED:
                users.append(numbers[0])
                items.append(numbers[1])
                times.append(numbers[3])
    if not users:
        raise DataError(f"{origin} must have clicks (pv), got none")
    shown = _negatives(users, items, times, np.array(list(categories)))
    return Events.of(
        origin,
        user=users * 2,
        item=[*items, *shown],
        time=times * 2,
        label=[1] * len(users) + [0] * len(users),
        known_item=list(categories),
        known_category=list(categories.values()),
    )


def _negatives(
    users: list[int], items: list[int], times: list[int], catalogue: np.ndarray
) -> list[int]:
    if len(catalogue) < 2:
        raise DataError("negatives must be drawn from at least two items, got one")
    rng = stream(0, "negatives")
    first: dict[tuple[int, int], int] = {}
    for user, item, time in zip(users, items, times, strict=True):
        first[user, item] = min(first.get((user, item), time), time)
    chosen: list[int] = catalogue[rng.integers(0, len(catalogue), size=len(users))].tolist()
    for row, (user, time) in enumerate(zip(users, times, strict=True)):
        tries = 0
        # Someone may have clicked everything there is: then a clicked item has to do.
        while first.get((user, chosen[row]), time + 1) <= time and tries < 100:
            chosen[row] = int(catalogue[rng.integers(0, len(catalogue))])
            tries += 1
    return chosen


def read_display_ads(folder: Path) -> Events:
    """Read ``raw_sample.csv`` and ``ad_feature.csv`` in `folder`, plain or .gz."""
    path = find_file(folder, "raw_sample.csv")
    origin = str(path)
    places: dict[str, int] = {}
    rows = []
    with open_text(path) as file:
        for line, texts in read_rows(file, origin, _SAMPLE):
            numbers = [whole(texts[i], _SAMPLE[i], origin, line) for i in range(3)]
            skipped, clicked = (click(texts[i], _SAMPLE[i], origin, line) for i in (4, 5))
            if skipped + clicked != 1:
                raise DataError(f"{origin}, line {line}: one of nonclk and clk must be 1")
            rows.append((*numbers, places.setdefault(texts[3], len(places)), clicked))
    user, time, item, context, label = zip(*rows, strict=True) if rows else ((),) * 5
    path = find_file(folder, "ad_feature.csv")
    known: dict[int, int] = {}
    with open_text(path) as file:
        for line, (ad, category) in read_rows(file, str(path), ("adgroup_id", "cate_id")):
            number = whole(ad, "adgroup_id", str(path), line)
            known[number] = whole(category, "cate_id", str(path), line)
    return Events.of(
        origin,
        user=user,
        item=item,
        time=time,
        context=context,
        label=label,
        known_item=list(known),
        known_category=list(known.values()),
    )
