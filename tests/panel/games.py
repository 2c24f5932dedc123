"""Federations whose clients have a known worth, judged on the bench without any model."""

import numpy as np

from fedmerit.panel.book import HeardRound
from fedmerit.panel.design import draw_pairs


def names(count):
    return [f"c{number:02d}" for number in range(count)]


def additive_rounds(
    worth,
    rng,
    *,
    rounds=10,
    pairs=1,
    noise=0.0,
    taste=0.0,
    gain=0.02,
    weights=None,
    judges=None,
    lie=None,
):
    """Rounds of a game in which a group is worth the weighted mean of its members.

    `taste` is how far judges differ about each client for ever, `noise` how far one comparison is
    off. `lie(judge, left, right, difference)` changes what a judge says, `lie(judge, gain)` what it
    says of the progress.
    """
    clients = names(len(worth))
    weights = np.ones(len(worth)) if weights is None else np.asarray(weights, float)
    judges = clients if judges is None else judges
    tastes = {judge: rng.normal(size=len(worth)) * taste for judge in judges}
    found = []
    for number in range(1, rounds + 1):
        drawn = draw_pairs(clients, judges, pairs, rng)
        told = tuple(
            (
                pair.judge,
                tuple(clients.index(c) for c in pair.left),
                tuple(clients.index(c) for c in pair.right),
            )
            for pair in drawn
        )
        blank = HeardRound(number, tuple(clients), tuple(weights), told, (0.0,) * len(told))
        shares = blank.shares()
        differences = []
        for row, (judge, left, right) in zip(shares, told, strict=True):
            difference = float(row @ (np.asarray(worth) + tastes[judge])) + noise * rng.normal()
            if lie is not None:
                difference = lie(judge, difference, left, right)
            differences.append(difference)
        gains = {judge: gain + noise * float(rng.normal()) for judge in judges}
        if lie is not None:
            gains = {judge: lie(judge, seen) for judge, seen in gains.items()}
        found.append(
            HeardRound(number, tuple(clients), tuple(weights), told, tuple(differences), gains)
        )
    return tuple(found)


def worth_of(found, count):
    """The estimated worth of the clients in their own order, centred."""
    values = np.array([found.of(name)[0] for name in names(count)])
    return values - values.mean()
