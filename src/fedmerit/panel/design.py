"""Who judges which halves.

Two clients that often stand in the same half cannot be told apart, and what one of them does is
taken for the other's. So of some random halves those are taken that overlap least with what was
asked already: with the other questions of the round, such that the round tells clients apart, and
with what the same judge was asked before, such that a judge's taste falls on nobody in particular.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# A judge needs two others to compare.
FEWEST_OTHERS = 2
# Halves that are drawn for one that is asked. More are better, by less and less.
_DRAWS = 32

Sides = tuple[Collection[str], Collection[str]]


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
    asked: Mapping[str, Sequence[Sides]] | None = None,
) -> list[Pair]:
    """Draw complementary halves of the others for every judge, in a balanced design.

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
    asked : mapping of judge to sequence of (left, right), optional
        What judges were asked before.

    Returns
    -------
    list of Pair
        None of a judge who has fewer than two others to compare.
    """
    inside = [client for client in clients if client not in apart]
    outside = [client for client in clients if client in apart]
    turn = int(rng.integers(len(outside))) if outside else 0
    place = {client: number for number, client in enumerate(clients)}
    drawn: list[Pair] = []
    round_sides = np.zeros((len(judges) * pairs, len(clients)))
    for judge in judges:
        itself = judge if own is None else own.get(judge, judge)
        waiting = [client for client in outside if client != itself]
        before = [] if asked is None else [_sides(sides, place) for sides in asked.get(judge, ())]
        for _ in range(pairs):
            pool = [client for client in inside if client != itself]
            if waiting:
                pool.append(waiting[turn % len(waiting)])
                turn += 1
            if len(pool) < FEWEST_OTHERS:
                continue
            known = np.vstack([round_sides[: len(drawn)], *before])
            sides = _least_overlap([place[client] for client in pool], known, rng)
            round_sides[len(drawn)] = sides
            before.append(sides)
            left, right = (
                tuple(sorted(client for client in pool if sides[place[client]] == side))
                for side in (1, -1)
            )
            drawn.append(Pair(judge, left, right))
    return drawn


def _sides(asked: Sides, place: Mapping[str, int]) -> NDArray[np.float64]:
    """Return 1 for clients on the left, -1 on the right, 0 for those in neither."""
    sides = np.zeros(len(place))
    for group, side in zip(asked, (1, -1), strict=True):
        sides[[place[client] for client in group if client in place]] = side
    return sides


def _least_overlap(
    pool: Sequence[int], known: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the sides, of several draws, that overlap least with those `known`, in squares."""
    found = np.zeros((_DRAWS, known.shape[1]))
    for sides in found:
        order = rng.permutation(pool)
        middle = (len(pool) + int(rng.integers(2))) // 2
        sides[order[:middle]], sides[order[middle:]] = 1, -1
    overlap: NDArray[np.float64] = found[np.argmin(((found @ known.T) ** 2).sum(axis=1))]
    return overlap


def choose_judges(
    judges: Sequence[str], most: int | None, heard: Mapping[str, int], rng: np.random.Generator
) -> list[str]:
    """Return at most `most` judges: those first who were `heard` least, by lot among equals."""
    if most is None or len(judges) <= most:
        return list(judges)
    lots = rng.permutation(len(judges))
    order = sorted(range(len(judges)), key=lambda place: (heard.get(judges[place], 0), lots[place]))
    return [judges[place] for place in sorted(order[:most])]
