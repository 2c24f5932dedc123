"""What judges said, round by round, and how it reads as rows of a regression."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class HeardRound:
    """One round's judgements.

    Attributes
    ----------
    round : int
    clients : tuple of str
        Whose updates were judged.
    weights : tuple of float
        What each of them weighs inside a group, relative to the others.
    pairs : tuple of (judge, left, right)
        Groups as places in `clients`.
    differences : tuple of float
        What the judge found of the left group's model, less what it found of the right one's.
    gains : mapping of judge to float
        What the judge found of the new model, less what it found of the one before.
    expected : tuple of float
        What each judge's own update says of the two groups: how much further the left group's mean
        goes its way than the right one's. Empty, or 0, where a judge sent no update.
    """

    round: int
    clients: tuple[str, ...]
    weights: tuple[float, ...]
    pairs: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    differences: tuple[float, ...]
    gains: Mapping[str, float] = field(default_factory=dict)
    expected: tuple[float, ...] = ()

    def shares(self) -> Reals:
        """Return the share of every client in each comparison, (pairs, clients).

        Positive on the left, negative on the right; each side sums to one.
        """
        weights = np.array(self.weights)
        found = np.zeros((len(self.pairs), len(weights)))
        for row, (_, left, right) in zip(found, self.pairs, strict=True):
            for side, sign in ((left, 1.0), (right, -1.0)):
                places = list(side)
                total = weights[places].sum()
                row[places] = sign * (weights[places] / total if total > 0 else 1 / len(places))
        return found


@dataclass(frozen=True)
class Book:
    """All that the panel remembers.

    Attributes
    ----------
    rounds : tuple of HeardRound
        The latest, oldest first.
    latest : mapping of judge to float
        What judges found of the newest model.
    harm : mapping of client to float
        Logarithm of the evidence that a client's updates harm the model, by what others say.
    contrary : mapping of client to float
        The same by what it says itself.
    """

    rounds: tuple[HeardRound, ...] = ()
    latest: Mapping[str, float] = field(default_factory=dict)
    harm: Mapping[str, float] = field(default_factory=dict)
    contrary: Mapping[str, float] = field(default_factory=dict)

    @property
    def heard(self) -> dict[str, int]:
        """How many comparisons of each judge are in the book."""
        counts: dict[str, int] = {}
        for known in self.rounds:
            for judge, _, _ in known.pairs:
                counts[judge] = counts.get(judge, 0) + 1
        return counts

    @property
    def against(self) -> dict[str, float]:
        """Logarithm of all evidence that a client's updates harm: the mean of the two e-values."""
        return {
            client: float(
                np.logaddexp(self.harm.get(client, 0.0), self.contrary.get(client, 0.0)) - np.log(2)
            )
            for client in {**self.harm, **self.contrary}
        }

    def asked(self) -> dict[str, list[tuple[list[str], list[str]]]]:
        """Return the groups that every judge has compared."""
        found: dict[str, list[tuple[list[str], list[str]]]] = {}
        for known in self.rounds:
            for judge, *groups in known.pairs:
                left, right = ([known.clients[place] for place in group] for group in groups)
                found.setdefault(judge, []).append((left, right))
        return found


@dataclass(frozen=True)
class Rows:
    """Judgements of several rounds as a regression; people, clients or judges, are numbers.

    Attributes
    ----------
    people : tuple of str
    judge : (n,) int64
    shares : (n, people) float
    difference : (n,) float
    usual : (n,) float
        Root mean square of the differences of the same round.
    expected : (n,) float
        What the judge's own update says of the comparison, with a root mean square of 1 in every
        round; 0 where it sent none.
    gains : (rounds, people) float
        NaN where somebody did not judge both models.
    """

    people: tuple[str, ...]
    judge: NDArray[np.int64]
    shares: Reals
    difference: Reals
    usual: Reals
    expected: Reals
    gains: Reals

    @property
    def judged(self) -> NDArray[np.int64]:
        """How many comparisons each person made."""
        return np.bincount(self.judge, minlength=len(self.people))


def rows_of(rounds: Sequence[HeardRound]) -> Rows:
    """Return the judgements of `rounds` as rows."""
    names: dict[str, int] = {}
    for known in rounds:
        judges = (judge for judge, _, _ in known.pairs)
        for name in (*known.clients, *judges, *known.gains):
            names.setdefault(name, len(names))
    blocks: list[Reals] = [np.empty((0, len(names)))]
    judge: list[int] = []
    usual: list[Reals] = [np.empty(0)]
    expected: list[Reals] = [np.empty(0)]
    difference: list[float] = []
    gains = np.full((len(rounds), len(names)), np.nan)
    for number, known in enumerate(rounds):
        block = np.zeros((len(known.pairs), len(names)))
        block[:, [names[client] for client in known.clients]] = known.shares()
        blocks.append(block)
        judge += [names[name] for name, _, _ in known.pairs]
        difference += known.differences
        usual.append(np.full(len(known.pairs), _size(known.differences)))
        own = np.array(known.expected or (0.0,) * len(known.pairs))
        expected.append(own / (_size(own) or 1.0))
        for name, gain in known.gains.items():
            gains[number, names[name]] = gain
    return Rows(
        tuple(names),
        np.array(judge, dtype=np.int64),
        np.concatenate(blocks),
        np.array(difference, dtype=np.float64),
        np.concatenate(usual),
        np.concatenate(expected),
        gains,
    )


def _size(values: Sequence[float] | Reals) -> float:
    """Return the root mean square; 0 of nothing."""
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0
