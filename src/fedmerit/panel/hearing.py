"""From a round's judgements to values: one step of the book.

What a client has added up to now is its account: its shares of what the rounds gained, and, for
every round, how far it was above or below the others. The latter is estimated from all judgements
that there are, and believed as far as they are reliable. The value of a round is what an account
rises by, so that the values of a run add up to the best estimate there is at its end. Values from
the estimates of their time would not: the first judgements would count in every round, and those
of the last round once.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedmerit.panel.bench import Heard, Read
from fedmerit.panel.book import Book, HeardRound, rows_of
from fedmerit.panel.estimate import Estimate, estimate
from fedmerit.panel.harm import bet_on_harm, harmful
from fedmerit.panel.own import bet_on_own_word
from fedmerit.panel.rules import Panel
from fedmerit.panel.trust import progress_voices


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
    rounds = (*book.rounds, read.heard)[-panel.rounds :]
    now = estimate(rounds)
    after = Book(
        rounds,
        # What was said of an older model is no longer the model before.
        dict(read.latest),
        bet_on_harm(book.harm, read.heard, before, _betting_voices(book, before, rounds), weights),
        bet_on_own_word(book.contrary, read.heard, book.rounds),
    )
    gain = float(now.gains[-1])
    earlier, latest = _accounts(before, rounds[:-1]), _accounts(now, rounds)
    rise = {client: latest.get(client, 0.0) - earlier.get(client, 0.0) for client in weights}
    values, errors = _values(now, gain, weights, rise)
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
        tuple(harmful(after.against, panel.rate)),
        read.refused,
        read.missing,
    )
    return after, heard


def _betting_voices(book: Book, before: Estimate, rounds: Sequence[HeardRound]) -> dict[str, float]:
    """Return voices for bets on a round: nothing that it says of groups may choose its judges."""
    rows = rows_of(rounds)
    known = dict(zip(before.people, map(float, before.voice), strict=True))
    judged = {name: known[name] for name in book.heard}
    progress = zip(rows.people, progress_voices(rows.gains), strict=True)
    return {name: float(voice) * judged.get(name, 1.0) for name, voice in progress}


def _accounts(found: Estimate, rounds: Sequence[HeardRound]) -> dict[str, float]:
    """Return how far clients' accounts are above what their shares of the gains come to."""
    place = {name: number for number, name in enumerate(found.people)}
    total = np.zeros(len(place))
    for known in rounds:
        there = [place[client] for client in known.clients]
        shares = np.array(known.weights) / sum(known.weights)
        total[there] += shares * (found.worth[there] - shares @ found.worth[there])
    return dict(zip(found.people, (found.reliability * total).tolist(), strict=True))


def _values(
    found: Estimate, gain: float, weights: Mapping[str, float], rise: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return what each client added, and its standard error; nothing without a gain.

    What all accounts of those in the model rise by together is the gain: where that is not so of
    itself, since somebody is away or kept out, the difference is shared by weight.
    """
    total = sum(weights.values())
    if math.isnan(gain) or not total > 0:
        return {}, {}
    left = gain - sum(rise[client] for client, weight in weights.items() if weight > 0)
    usual = float(np.mean([weight for weight in weights.values() if weight > 0]))
    values, errors = {}, {}
    for client, weight in weights.items():
        share = (weight or usual) / total
        values[client] = share * left + rise[client]
        errors[client] = share * found.of(client)[1]
    return values, errors
