"""A judge's word beside its own work.

A judge's update was made from the data that it judges on. To first order a model gets better on
these data as far as it goes the way of that update; so the update says which of two groups the
judge will like, before it is asked. With honest clients what is said and what is expected have a
correlation of about 0.6 where data are alike, and of 0.8 where every client has two classes: the
more judges differ, the better their own updates tell how.

Who says the opposite of what its update says lies, or sends an update that its own data speak
against: both were seen in no honest client. It has no voice as a judge, and the same is evidence
that it harms the model, by its own word. Who adds something to its answers, such as praise for its
friends, says more than its update explains, and counts less: answers weigh by their precision.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fedmerit.evidence.limits import LIMITS
from fedmerit.panel.book import HeardRound, Reals, Rows, rows_of

_TINY = 1e-12


def own_agreement(rows: Rows) -> Reals:
    """Return how each person's word agrees with its own work, from -1 to 1; 0 without either."""
    said, people = _said(rows), len(rows.people)
    there = (rows.expected != 0).astype(np.float64)
    both = np.bincount(rows.judge, said * rows.expected, people)
    size = np.bincount(rows.judge, said**2 * there, people)
    size = size * np.bincount(rows.judge, rows.expected**2, people)
    found: Reals = np.divide(both, np.sqrt(size), out=np.zeros(people), where=size > 0)
    return found


def own_voices(rows: Rows) -> Reals:
    """Return how far each person's word stands beside its own work, from 0 to 1.

    A judge of one mind with itself agrees as the median judge does, one that says the opposite as
    much below zero, each give or take what chance makes of so many answers. A voice is twice the
    chance that it is the former, and 1 at most; where the median judge does not agree with itself,
    nobody is silenced. Times that, at most 1, the variance of what the median judge says beyond
    its work by that of what this one does.
    """
    found = own_agreement(rows)
    count = np.bincount(rows.judge[rows.expected != 0], minlength=len(found))
    if not count.any():
        return np.ones(len(found))
    works = count > 0
    usual = max(float(np.median(found[works])), 0.0)
    # However much a judge says, its taste is one vector over the clients.
    compared = int((rows.shares != 0).any(axis=0).sum()) - 2
    freedom = np.minimum(count, max(compared, 1))
    odds = np.exp(np.minimum(2 * usual * found * freedom, 0.0))
    rest = (_said(rows) - usual * rows.expected) ** 2
    rest = np.bincount(rows.judge, rest, len(found)) / np.maximum(rows.judged, 1)
    precision = np.minimum(1.0, np.median(rest[works]) / np.maximum(rest, _TINY))
    return np.where(works, 2 * odds / (1 + odds) * precision, 1.0)


def bet_on_own_word(
    known: Mapping[str, float], heard: HeardRound, before: Sequence[HeardRound]
) -> dict[str, float]:
    """Return the logarithm of the evidence, after this round, that a client contradicts itself.

    x is the square root of the number of answers times the correlation of answers and own work,
    which has a variance of one and no heavy tails if they have nothing to do with each other, and
    d what the median judge shows whom nobody suspects. The wealth is multiplied by
    exp(-d x - d^2 / 2), as for bets on harm: it grows for who contradicts itself more than half as
    much as others agree. Nothing is bet on whom earlier rounds do not suspect.

    Parameters
    ----------
    known : mapping of client to float
        After the round before.
    heard : HeardRound
    before : sequence of HeardRound
    """
    rows, past = rows_of((heard,)), rows_of(before)
    works = np.unique(rows.judge[rows.expected != 0])
    after = dict(known)
    if not len(works):
        return after
    suspected = {
        name for name, way in zip(past.people, own_agreement(past), strict=True) if way < 0
    }
    shown = own_agreement(rows) * np.sqrt(np.bincount(rows.judge, minlength=len(rows.people)))
    suspected |= {client for client, wealth in known.items() if wealth > 0}
    # Who saw no difference said nothing.
    spoke = works[shown[works] != 0]
    doubted = [place for place in spoke if rows.people[place] in suspected]
    others = np.setdiff1d(spoke, doubted)
    if len(others) <= len(doubted):
        return after  # there is no majority that shows what is usual
    stake = min(max(float(np.median(shown[others])), 0.0), LIMITS.largest_bet)
    for place in doubted:
        client = rows.people[place]
        after[client] = after.get(client, 0.0) - stake * shown[place] - stake * stake / 2
    return after


def _said(rows: Rows) -> Reals:
    """Return the differences in units of what is usual in their round."""
    return np.asarray(rows.difference / np.maximum(rows.usual, _TINY))
