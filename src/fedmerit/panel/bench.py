"""The candidates of one round, made one at a time, and what came back."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import InvalidInputError
from fedmerit.panel.book import Book, HeardRound
from fedmerit.panel.design import Pair, choose_judges, draw_pairs
from fedmerit.panel.rules import Panel
from fedmerit.types import FloatArray

Answers = Mapping[str, object] | Iterable[tuple[str, object]]
AFTER, BEFORE, LEFT, RIGHT = "after", "before", "left", "right"


@dataclass(frozen=True)
class Candidate:
    """A model to be judged.

    Attributes
    ----------
    key : str
        Goes with the answer. It says nothing about the model.
    judge : str
        Who is asked.
    model : vector, or mapping from name to array
        In the form of the server's model.
    current : bool
        Whether it is the new global model: what a judge says of that is what users want to see.
    """

    key: str
    judge: str
    model: Any
    current: bool = False


@dataclass(frozen=True)
class _Question:
    judge: str
    part: str
    pair: int = -1


@dataclass(frozen=True)
class Read:
    """What of a round's answers can be used.

    Attributes
    ----------
    heard : HeardRound
    latest : mapping of judge to float
        What judges found of the new model.
    refused : tuple of (key, reason)
    missing : int
        Questions that nobody answered.
    digests : mapping of judge to str
        SHA-256 of what each judge was asked and answered.
    """

    heard: HeardRound
    latest: Mapping[str, float]
    refused: tuple[tuple[str, str], ...]
    missing: int
    digests: Mapping[str, str]


@dataclass(frozen=True)
class Heard:
    """What a round's judgements come to.

    Attributes
    ----------
    round : int
    gain : float
        What the round gained, in units of the metric, by the judges who have a voice; NaN where
        nobody judged both models.
    values, errors : mapping of client to float
        What each client added, and the standard error of that. The values of those who entered the
        model add up to the gain; those of others say what they would have added.
    voices : mapping of judge to float
    harmful : tuple of str
        Who is said to harm the model.
    refused : tuple of (key, reason)
    missing : int
    """

    round: int
    gain: float
    values: Mapping[str, float]
    errors: Mapping[str, float]
    voices: Mapping[str, float]
    harmful: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    missing: int = 0


@dataclass
class Bench:
    """One round before its judges.

    Attributes
    ----------
    panel : Panel
    round : int
    clients : tuple of str
    updates : (k, d) float array
        What each client's report adds to the model; a view, not a copy.
    weights : (k,) float
        What each weighs inside a group: positive, also for those that are kept out of the model.
    before, after : vector
        The model that clients started from, and the new one.
    """

    panel: Panel
    round: int
    clients: tuple[str, ...]
    updates: FloatArray
    weights: NDArray[np.float64]
    before: FloatArray
    after: FloatArray
    pairs: list[Pair] = field(default_factory=list)
    _questions: dict[str, _Question] = field(default_factory=dict)
    _known: Mapping[str, float] = field(default_factory=dict)

    def ask(
        self,
        judges: Sequence[str],
        book: Book,
        rng: np.random.Generator,
        apart: Sequence[str] = (),
        own: Mapping[str, str] | None = None,
    ) -> None:
        """Draw the questions of the round; for `apart` and `own` see `draw_pairs`."""
        chosen = choose_judges(judges, self.panel.judges, book.heard, rng)
        self.pairs = draw_pairs(
            self.clients,
            chosen,
            self.panel.pairs,
            rng,
            apart=apart,
            own=own,
            asked=book.asked(),
        )
        self._known = book.latest
        questions: list[_Question] = []
        for judge in chosen:
            mine = [_Question(judge, AFTER)]
            if judge not in book.latest:
                mine.append(_Question(judge, BEFORE))
            for number, pair in enumerate(self.pairs):
                if pair.judge == judge:
                    mine += [_Question(judge, LEFT, number), _Question(judge, RIGHT, number)]
            # In random order: which of them is the global model is nobody's business.
            questions += [mine[place] for place in rng.permutation(len(mine))]
        self._questions = {f"{self.round}:{n}": asked for n, asked in enumerate(questions)}

    def __iter__(self) -> Iterator[tuple[str, str, FloatArray, bool]]:
        """Yield key, judge, model and whether it is the global one, each made when asked for."""
        for key, asked in self._questions.items():
            yield key, asked.judge, self._model(asked), asked.part == AFTER

    def _model(self, asked: _Question) -> FloatArray:
        if asked.part == AFTER:
            return self.after
        if asked.part == BEFORE:
            return self.before
        pair = self.pairs[asked.pair]
        members = pair.left if asked.part == LEFT else pair.right
        rows = [self.clients.index(client) for client in members]
        weights = self.weights[rows] / self.weights[rows].sum()
        change = np.zeros(len(self.before), dtype=np.float64)
        for weight, row in zip(weights, rows, strict=True):
            change += weight * self.updates[row]
        return np.asarray((self.before + change).astype(self.before.dtype))

    def read(self, answers: Answers) -> Read:
        """Sort answers; what cannot be used is refused with a reason and concerns nobody else."""
        found: dict[str, float] = {}
        refused: list[tuple[str, str]] = []
        for name, value in answers.items() if isinstance(answers, Mapping) else answers:
            key = str(name)
            if key not in self._questions:
                refused.append((key[:60], self._stranger(key)))
            elif key in found:
                refused.append((key, "a second answer to the same question"))
            else:
                try:
                    found[key] = self.panel.read(value)
                except InvalidInputError as error:
                    refused.append((key, str(error)))
        return Read(
            self._heard(found),
            self._found(found, AFTER),
            tuple(refused),
            len(self._questions) - len(found),
            self._digests(found),
        )

    def _stranger(self, key: str) -> str:
        number = key.partition(":")[0]
        if number.isdecimal() and number != str(self.round):
            return f"the answer must be of round {self.round}, got one of round {number[:20]}"
        return "nobody was asked that"

    def _found(self, found: Mapping[str, float], part: str) -> dict[str, float]:
        asked = ((key, question) for key, question in self._questions.items() if key in found)
        return {question.judge: found[key] for key, question in asked if question.part == part}

    def _heard(self, found: Mapping[str, float]) -> HeardRound:
        sides: dict[int, dict[str, float]] = {}
        for key, asked in self._questions.items():
            if asked.pair >= 0 and key in found:
                sides.setdefault(asked.pair, {})[asked.part] = found[key]
        whole = [number for number, answers in sorted(sides.items()) if len(answers) == 2]
        place = {client: number for number, client in enumerate(self.clients)}
        after = self._found(found, AFTER)
        before = {**self._known, **self._found(found, BEFORE)}
        heard = HeardRound(
            self.round,
            self.clients,
            tuple(map(float, self.weights)),
            tuple(
                (
                    self.pairs[number].judge,
                    tuple(place[client] for client in self.pairs[number].left),
                    tuple(place[client] for client in self.pairs[number].right),
                )
                for number in whole
            ),
            tuple(sides[number][LEFT] - sides[number][RIGHT] for number in whole),
            {judge: after[judge] - before[judge] for judge in after if judge in before},
        )
        return replace(heard, expected=self._expected(heard))

    def _expected(self, heard: HeardRound) -> tuple[float, ...]:
        """Return what the judges' own updates say of the groups that they compared.

        To first order a model gets better on a client's data as far as it goes the way of the
        client's own update.
        """
        place = {client: number for number, client in enumerate(self.clients)}
        with np.errstate(over="ignore", invalid="ignore"):
            products = (self.updates @ self.updates.T).astype(np.float64)
            lengths = np.sqrt(np.diag(products))
            ways = products / np.where(lengths > 0, lengths, 1.0)
        if not np.isfinite(ways).all():
            return ()
        by_client = heard.shares() @ ways
        return tuple(
            float(row[place[judge]]) if judge in place else 0.0
            for row, (judge, _, _) in zip(by_client, heard.pairs, strict=True)
        )

    def _digests(self, found: Mapping[str, float]) -> dict[str, str]:
        told: dict[str, list[object]] = {}
        for key, asked in self._questions.items():
            if key in found:
                pair = self.pairs[asked.pair] if asked.pair >= 0 else None
                groups = None if pair is None else [pair.left, pair.right]
                told.setdefault(asked.judge, []).append([asked.part, groups, found[key]])
        return {
            judge: hashlib.sha256(
                json.dumps([self.round, judge, said], separators=(",", ":")).encode()
            ).hexdigest()
            for judge, said in told.items()
        }
