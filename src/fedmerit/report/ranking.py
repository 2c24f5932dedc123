"""Clients over a run: where they stand, with intervals, and what they were flagged for."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedmerit.intervals import mean_half_width
from fedmerit.types import RoundRecord

# Percentages and names differ from round to round; the kind of reason does not.
_DETAIL = re.compile(r"\s*\([^()]*\)$|\s+of client .*$", re.DOTALL)
OFTEN = 0.5


def kind_of(reason: str) -> str:
    """Return a reason without its details.

    Examples
    --------
    >>> kind_of("explained by public information (97%)"), kind_of("near-copy of client 7")
    ('explained by public information', 'near-copy')
    """
    return _DETAIL.sub("", reason) or "flagged"


@dataclass
class Course:
    """One client, round by round; lists of equal length."""

    at: list[int] = field(default_factory=list)
    score: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    p_value: list[float | None] = field(default_factory=list)
    epsilon: list[float | None] = field(default_factory=list)
    reason: list[str] = field(default_factory=list)
    reward: list[int | None] = field(default_factory=list)
    behaviour: str | None = None
    rejected: int = 0

    @property
    def scores(self) -> list[float]:
        """Scores that were given."""
        return [score for score in self.score if not math.isnan(score)]

    @property
    def flagged(self) -> int:
        """In how many rounds the client was flagged."""
        return sum(map(bool, self.reason))

    @property
    def mean(self) -> float:
        """Mean score."""
        return math.fsum(self.scores) / len(self.scores) if self.scores else math.nan

    @property
    def half_width(self) -> float:
        """Half width of the 95 % interval of the mean score."""
        return mean_half_width(self.scores)

    @property
    def paid(self) -> int:
        """Sum of rewards."""
        return sum(reward or 0 for reward in self.reward)

    @property
    def group(self) -> str:
        """What the client did, where it is known; else how often it was flagged."""
        if self.behaviour is not None:
            return self.behaviour
        share = self.flagged / len(self.at) if self.at else 0.0
        if share >= OFTEN:
            return "flagged often"
        return "flagged sometimes" if share else "never flagged"

    def kinds(self) -> list[tuple[str, int]]:
        """Kinds of reasons with how often they occurred, most frequent first."""
        return Counter(kind_of(reason) for reason in self.reason if reason).most_common()


def courses_of(records: Sequence[RoundRecord]) -> dict[str, Course]:
    """Turn rounds of clients into clients over rounds, in order of appearance."""
    courses: dict[str, Course] = {}
    for index, record in enumerate(records):
        for client in record.clients:
            course = courses.setdefault(client.client, Course())
            course.behaviour = client.behaviour if client.behaviour else course.behaviour
            course.at.append(index)
            course.score.append(client.score)
            course.weight.append(client.weight)
            course.p_value.append(client.p_value)
            course.epsilon.append(client.epsilon)
            course.reason.append((client.reason or "flagged") if client.flagged else "")
            course.reward.append(client.reward)
        for refused in record.rejected:
            courses.setdefault(refused.client, Course()).rejected += 1
    return courses
