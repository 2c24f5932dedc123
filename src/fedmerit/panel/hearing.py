"""From a round's judgements to values: one step of the book."""

import math
from collections.abc import Mapping

import numpy as np

from fedmerit.panel.bench import Heard, Read
from fedmerit.panel.book import Book
from fedmerit.panel.estimate import Estimate, estimate
from fedmerit.panel.harm import bet_on_harm, harmful
from fedmerit.panel.rules import Panel


def hear(panel: Panel, book: Book, read: Read, weights: Mapping[str, float]) -> tuple[Book, Heard]:
    """Take in a round's judgements.

    Parameters
    ----------
    panel : Panel
    book : Book
        Before the round.
    read : Read
    weights : mapping of client to float
        What each client weighs in the new model; zero for those kept out of it.

    Returns
    -------
    Book, Heard
        The book after the round, and what the round comes to.
    """
    before = estimate(book.rounds)
    voices = dict(zip(before.people, map(float, before.voice), strict=True))
    judged = {name: voices[name] for name in book.heard}
    rounds = (*book.rounds, read.heard)[-panel.rounds :]
    now = estimate(rounds)
    after = Book(
        rounds,
        # What was said of an older model is no longer the model before.
        dict(read.latest),
        bet_on_harm(book.harm, read.heard, before, judged),
    )
    gain = float(now.gains[-1])
    values, errors = _values(now, gain, weights)
    heard = Heard(
        read.heard.round,
        gain,
        values,
        errors,
        {
            name: float(voice)
            for name, voice in zip(now.people, now.voice, strict=True)
            if name in after.heard
        },
        tuple(harmful(after.harm, panel.rate)),
        read.refused,
        read.missing,
    )
    return after, heard


def _values(
    found: Estimate, gain: float, weights: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return what each client added, and its standard error; nothing without a gain."""
    total = sum(weights.values())
    if math.isnan(gain) or not total > 0:
        return {}, {}
    worth = {client: found.of(client) for client in weights}
    mean = sum(weight * worth[client][0] for client, weight in weights.items()) / total
    usual = float(np.mean([weight for weight in weights.values() if weight > 0]))
    values, errors = {}, {}
    for client, weight in weights.items():
        share = (weight or usual) / total
        values[client] = share * (gain + worth[client][0] - mean)
        errors[client] = share * worth[client][1]
    return values, errors
