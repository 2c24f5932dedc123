"""Clients over a run: where they stand, with intervals, and what speaks against them."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedmerit.intervals import mean_half_width

OFTEN = 0.5
UNEXPLAINED = "no reason recorded"


@dataclass(frozen=True)
class Why:
    """What speaks against a client in a round, or why it has no weight or no pay.

    Attributes
    ----------
    kind : str
        In words; reasons of one kind differ in details only.
    words : str
    accuses : bool
        Whether the client is taken not to have done its own work.
    """

    kind: str
    words: str
    accuses: bool


@dataclass(frozen=True)
class Course:
    """One client, round by round; columns of equal length.

    Attributes
    ----------
    at : (n,) int
        Places of rounds.
    score, weight, p_value, epsilon : (n,) float
        NaN where there is none.
    why : (n,) int
        Counts in `whys` from 1; 0 where there is nothing to say.
    reward : (n,) int
        Negative where there is none.
    value, value_error : (n,) float
        What it added as its peers judged it; NaN where nobody did.
    """

    at: NDArray[np.int32]
    score: NDArray[np.float64]
    weight: NDArray[np.float64]
    p_value: NDArray[np.float64]
    epsilon: NDArray[np.float64]
    why: NDArray[np.int32]
    reward: NDArray[np.int64]
    value: NDArray[np.float64]
    value_error: NDArray[np.float64]
    whys: Sequence[Why]
    behaviour: str | None = None
    label: str | None = None
    rejected: int = 0

    @cached_property
    def scores(self) -> list[float]:
        """Scores that were given; older records may hold infinite ones, which have no mean."""
        given: list[float] = self.score[np.isfinite(self.score)].tolist()
        return given

    @cached_property
    def told(self) -> list[tuple[Why, int]]:
        """Reasons with how often they occurred, in order of their first occurrence."""
        numbers, first, counts = np.unique(self.why, return_index=True, return_counts=True)
        return [
            (self.whys[numbers[place] - 1], int(counts[place]))
            for place in np.argsort(first, kind="stable")
            if numbers[place]
        ]

    @cached_property
    def flagged(self) -> int:
        """In how many rounds the client was flagged."""
        return sum(count for why, count in self.told if why.accuses)

    @cached_property
    def mean(self) -> float:
        """Mean score."""
        return math.fsum(self.scores) / len(self.scores) if self.scores else math.nan

    @property
    def half_width(self) -> float:
        """Half width of the 95 % interval of the mean score."""
        return mean_half_width(self.scores)

    @property
    def paid(self) -> int | None:
        """Sum of rewards, exactly; None where there is none."""
        given = self.reward[self.reward >= 0]
        return sum(given.tolist()) if given.size else None

    @property
    def worth(self) -> tuple[float, float] | None:
        """What it added as its peers judged it, and how far that may be off; None if nobody did.

        Errors of its rounds are added: they rest on the same judgements.
        """
        known, errors = (v[~np.isnan(v)].tolist() for v in (self.value, self.value_error))
        return (math.fsum(known), math.fsum(errors)) if known else None

    @property
    def group(self) -> str:
        """What the client did, where it is known; else how often it was flagged."""
        if self.behaviour is not None:
            return self.behaviour
        share = self.flagged / len(self.at) if len(self.at) else 0.0
        if share >= OFTEN:
            return "flagged often"
        return "flagged sometimes" if share else "never flagged"

    def kinds(self) -> list[tuple[str, int]]:
        """Kinds of reasons with how often they occurred, most frequent first."""
        counts: Counter[str] = Counter()
        for why, count in self.told:
            counts[why.kind] += count
        return counts.most_common()
