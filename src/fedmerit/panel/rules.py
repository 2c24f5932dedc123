"""What judges are asked, and what they may answer."""

import math
from dataclasses import dataclass

import numpy as np

from fedmerit.errors import InvalidInputError, SettingError
from fedmerit.validation import check_count, check_number

# False discovery rate at which clients are said to harm the model.
HARM_RATE = 0.01
REMEMBERED_ROUNDS = 100


@dataclass(frozen=True)
class Panel:
    """How a federation judges its clients' updates.

    A round asks every judge for the new model, the model before it where the judge has not judged
    that yet, and two models per pair.

    Attributes
    ----------
    metric : str
        What clients report of a model, as they call it: ``"eval_acc"``. Accuracy works where labels
        are wrong; a loss does not, since judges with wrong labels like flat predictions.
    pairs : int
        Pairs of halves per judge and round. Values need many judgements: four are clearly better
        than one, and cost four times as much.
    judges : int or None
        At most so many judges a round, those first who have judged least; None: all who are there.
    low, high : float
        The metric's range. An answer outside is refused, unless answers are clipped to it.
    lower_is_better : bool
        For a loss.
    clip : bool
        Take an answer outside the range for the range's end: for a metric without one.
    rate : float
        False discovery rate at which clients are said to harm the model; 0: nobody is.
    pays : bool
        Whether rewards follow values instead of scores.
    rounds : int
        How many rounds' judgements are kept and count.

    Examples
    --------
    >>> Panel("eval_loss", low=0, high=3, lower_is_better=True, clip=True).read(7.5)
    0.0
    """

    metric: str = "accuracy"
    pairs: int = 1
    judges: int | None = None
    low: float = 0.0
    high: float = 1.0
    lower_is_better: bool = False
    clip: bool = False
    rate: float = HARM_RATE
    pays: bool = False
    rounds: int = REMEMBERED_ROUNDS

    def __post_init__(self) -> None:
        if not isinstance(self.metric, str) or not self.metric:
            raise SettingError(f"metric must be the name of a metric, got {self.metric!r}")
        check_count("pairs", self.pairs, least=1)
        if self.judges is not None:
            check_count("judges", self.judges, least=1)
        check_number("low", self.low)
        check_number("high", self.high, above=self.low)
        check_number("rate", self.rate, least=0, below=1)
        check_count("rounds", self.rounds, least=1)

    def read(self, value: object) -> float:
        """Return what a judge answered such that more is better; refuse what cannot be true."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInputError(f"{self.metric} must be a number, got {value!r}"[:200])
        number = float(value)
        if math.isnan(number):
            raise InvalidInputError(f"{self.metric} must be a number, got NaN")
        if self.clip:
            number = min(max(number, self.low), self.high)
        if not self.low <= number <= self.high:
            raise InvalidInputError(
                f"{self.metric} must be from {self.low:g} to {self.high:g}, got {number:g}"
            )
        return float(self.high - number if self.lower_is_better else number)
