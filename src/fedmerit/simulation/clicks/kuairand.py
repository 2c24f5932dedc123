"""KuaiRand-Pure: videos shown to users of a short-video app, with their clicks.

Gao et al., "KuaiRand: An unbiased sequential recommendation dataset with randomly exposed videos",
CIKM 2022. Read: any number of ``log_standard_*.csv``, ``video_features_basic_pure.csv``, and, if
there, ``user_history_*.csv`` (what users watched long before the log begins).
"""

from pathlib import Path

from fedmerit.errors import DataError
from fedmerit.simulation.clicks.events import Events
from fedmerit.simulation.clicks.tables import click, find_file, open_text, read_rows, whole

# `tab` is the scenario, known when a video is shown. All else in a row is feedback to it.
_LOG = ("user_id", "video_id", "time_ms", "is_click", "tab")
_HISTORY = ("user_id", "last_time_ms", "long_view_seq")


def read_kuairand(folder: Path) -> Events:
    """Read a folder with the published CSV files, plain or .gz."""
    logs = sorted({*folder.glob("log_standard_*.csv"), *folder.glob("log_standard_*.csv.gz")})
    if not logs:
        raise DataError(f"{folder} must have a file log_standard_*.csv (or .gz), got none")
    rows: dict[tuple[int, ...], None] = {}  # the publisher's files repeat some rows
    for path in logs:
        with open_text(path) as file:
            for line, texts in read_rows(file, str(path), _LOG):
                numbers = [
                    (click if column == "is_click" else whole)(text, column, str(path), line)
                    for column, text in zip(_LOG, texts, strict=True)
                ]
                rows[tuple(numbers)] = None
    earlier_user, earlier_item, ends = _earlier(folder)
    # The clocks of log and history overlap by minutes: what a history may contain is no event.
    events = [row for row in rows if row[2] > ends.get(row[0], row[2] - 1)]
    user, item, time, label, context = zip(*events, strict=True) if events else ((),) * 5
    known_item, known_category = _categories(find_file(folder, "video_features_basic_pure.csv"))
    return Events.of(
        str(folder),
        user=user,
        item=item,
        time=time,
        label=label,
        context=context,
        known_item=known_item,
        known_category=known_category,
        earlier_user=earlier_user,
        earlier_item=earlier_item,
    )


def _categories(path: Path) -> tuple[list[int], list[int]]:
    """Read each video's first tag; some have none."""
    items, categories = [], []
    with open_text(path) as file:
        for line, (item, tags) in read_rows(file, str(path), ("video_id", "tag")):
            if tags:
                items.append(whole(item, "video_id", str(path), line))
                categories.append(whole(tags.split(",")[0], "tag", str(path), line))
    return items, categories


def _earlier(folder: Path) -> tuple[list[int], list[int], dict[int, int]]:
    """Read who watched what before the log begins, and when each of these histories ends."""
    users, items, ends = [], [], {}
    for path in sorted({*folder.glob("user_history_*.csv"), *folder.glob("user_history_*.csv.gz")}):
        origin = str(path)
        with open_text(path) as file:
            for line, (name, last, watched) in read_rows(file, origin, _HISTORY):
                user = whole(name, "user_id", origin, line)
                ends[user] = whole(last, "last_time_ms", origin, line)
                for item in watched.split():
                    users.append(user)
                    items.append(whole(item, "long_view_seq", origin, line))
    return users, items, ends
