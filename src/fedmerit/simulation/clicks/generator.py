"""Invented click logs: the embedded default, and what tests use.

Users like a few categories, items differ in appeal, and a click follows both. So item popularity
explains a part, and a user's history explains more.
"""

import numpy as np

from fedmerit.rng import stream
from fedmerit.simulation.clicks.events import Events
from fedmerit.validation import check_count

_CATEGORIES, _CONTEXTS = 12, 3
_TASTE, _APPEAL, _PLACE = 2.0, 0.8, 0.3


def generate_events(
    *, users: int = 300, items: int = 400, events_per_user: int = 40, seed: int = 0
) -> Events:
    """Draw a log; users have about `events_per_user` events, some twice as many, some a third."""
    check_count("users", users, least=2)
    check_count("items", items, least=_CATEGORIES)
    check_count("events_per_user", events_per_user, least=3)
    rng = stream(seed, "click log")
    category = np.concatenate(
        [np.arange(_CATEGORIES), rng.integers(0, _CATEGORIES, items - _CATEGORIES)]
    )
    appeal = rng.normal(0, _APPEAL, items)
    place = rng.normal(0, _PLACE, _CONTEXTS)
    taste = np.where(rng.random((users, _CATEGORIES)) < 0.3, _TASTE, -_TASTE / 2)
    counts = np.rint(events_per_user * rng.uniform(1 / 3, 5 / 3, users)).astype(int)
    user = np.repeat(np.arange(users), counts)
    # Popular items are shown more often.
    shown = np.exp(0.5 * appeal)
    item = rng.choice(items, size=len(user), p=shown / shown.sum())
    context = rng.integers(0, _CONTEXTS, len(user))
    logit = taste[user, category[item]] + appeal[item] + place[context] - 0.3
    label = rng.random(len(user)) < 1 / (1 + np.exp(-logit))
    return Events.of(
        "the generated log",
        user=user,
        item=item,
        context=context,
        label=label,
        time=rng.permutation(len(user)),
        known_item=np.arange(items),
        known_category=category,
    )
