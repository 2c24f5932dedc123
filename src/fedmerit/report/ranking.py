"""Clients over a run: where they stand, with intervals, and what speaks against them."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedmerit.flags import Flag
from fedmerit.intervals import mean_half_width
from fedmerit.types import ClientRecord, RoundRecord

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


def why_of(client: ClientRecord, refused: Flag | None = None) -> Why | None:
    """Return the client's flag for people, or that of its rejected reply.

    Without either there is nothing to say, unless the client has no weight or no pay.
    """
    flag = client.flag or refused
    if flag is not None:
        return Why(flag.kind.words, flag.words, flag.accuses)
    if client.weight == 0 or client.reward == 0:
        return Why(UNEXPLAINED, UNEXPLAINED, accuses=False)
    return None


@dataclass
class Course:
    """One client, round by round; lists of equal length."""

    at: list[int] = field(default_factory=list)
    score: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    p_value: list[float | None] = field(default_factory=list)
    epsilon: list[float | None] = field(default_factory=list)
    why: list[Why | None] = field(default_factory=list)
    reward: list[int | None] = field(default_factory=list)
    value: list[float | None] = field(default_factory=list)
    value_error: list[float | None] = field(default_factory=list)
    behaviour: str | None = None
    label: str | None = None
    rejected: int = 0

    @property
    def scores(self) -> list[float]:
        """Scores that were given; older records may hold infinite ones, which have no mean."""
        return [score for score in self.score if math.isfinite(score)]

    @property
    def flagged(self) -> int:
        """In how many rounds the client was flagged."""
        return sum(why is not None and why.accuses for why in self.why)

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
    def worth(self) -> tuple[float, float] | None:
        """What it added as its peers judged it, and how far that may be off; None if nobody did.

        Errors of its rounds are added: they rest on the same judgements.
        """
        known = [value for value in self.value if value is not None]
        errors = [error for error in self.value_error if error is not None]
        return (math.fsum(known), math.fsum(errors)) if known else None

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
        return Counter(why.kind for why in self.why if why is not None).most_common()


def courses_of(records: Sequence[RoundRecord]) -> dict[str, Course]:
    """Turn rounds of clients into clients over rounds, in order of appearance."""
    courses: dict[str, Course] = {}
    for index, record in enumerate(records):
        refusals = {
            refused.client: Flag(refused.kind, refused.reason) for refused in record.rejected
        }
        for client in record.clients:
            course = courses.setdefault(client.client, Course())
            course.behaviour = client.behaviour or course.behaviour
            course.label = client.label or course.label
            course.at.append(index)
            course.score.append(client.score)
            course.weight.append(client.weight)
            course.p_value.append(client.p_value)
            course.epsilon.append(client.epsilon)
            course.why.append(why_of(client, refusals.get(client.client)))
            course.reward.append(client.reward)
            course.value.append(client.value)
            course.value_error.append(client.value_error)
        for refused in record.rejected:
            courses.setdefault(refused.client, Course()).rejected += 1
    return courses
