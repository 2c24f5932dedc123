"""Who judges which halves."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# A judge needs two others to compare.
FEWEST_OTHERS = 2


@dataclass(frozen=True)
class Pair:
    """Two disjoint groups of clients that one judge compares; it belongs to neither."""

    judge: str
    left: tuple[str, ...]
    right: tuple[str, ...]


def draw_pairs(
    clients: Sequence[str],
    judges: Sequence[str],
    pairs: int,
    rng: np.random.Generator,
    *,
    apart: Collection[str] = (),
    own: Mapping[str, str] | None = None,
) -> list[Pair]:
    """Draw complementary halves of the others for every judge.

    Every other client is in one half of every pair, so that all are judged equally often. An odd
    one out makes the left half larger as often as the right. Clients that are kept out of the
    model, `apart`, would blur what is seen of the others: a pair has at most one of them, in turns,
    which is how they can redeem themselves.

    Parameters
    ----------
    clients : sequence of str
        Whose updates can be judged.
    judges : sequence of str
        Who judges, whether they sent an update or not.
    pairs : int
        Per judge.
    rng : Generator
    apart : collection of str
    own : mapping of judge to str, optional
        Whom a judge leaves out, where that is not itself: its group.

    Returns
    -------
    list of Pair
        None of a judge who has fewer than two others to compare.
    """
    inside = [client for client in clients if client not in apart]
    outside = [client for client in clients if client in apart]
    turn = int(rng.integers(len(outside))) if outside else 0
    drawn = []
    for judge in judges:
        itself = judge if own is None else own.get(judge, judge)
        waiting = [client for client in outside if client != itself]
        for _ in range(pairs):
            pool = [client for client in inside if client != itself]
            if waiting:
                pool.append(waiting[turn % len(waiting)])
                turn += 1
            if len(pool) < FEWEST_OTHERS:
                continue
            order = rng.permutation(len(pool))
            middle = (len(pool) + int(rng.integers(2))) // 2
            left, right = (
                tuple(sorted(pool[place] for place in part))
                for part in (order[:middle], order[middle:])
            )
            drawn.append(Pair(judge, left, right))
    return drawn


def choose_judges(
    judges: Sequence[str], most: int | None, heard: Mapping[str, int], rng: np.random.Generator
) -> list[str]:
    """Return at most `most` judges: those first who were `heard` least, by lot among equals."""
    if most is None or len(judges) <= most:
        return list(judges)
    lots = rng.permutation(len(judges))
    order = sorted(range(len(judges)), key=lambda place: (heard.get(judges[place], 0), lots[place]))
    return [judges[place] for place in sorted(order[:most])]
