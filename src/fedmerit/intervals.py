"""How far a number may be off: intervals for scores of one round, and for means over rounds."""

from collections.abc import Callable, Sequence
from math import fsum, nan, pi, sqrt, tan
from statistics import NormalDist, mean, stdev

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import InvalidInputError
from fedmerit.sampling import restrict
from fedmerit.types import RoundInputs
from fedmerit.validation import check_count, check_number

LEVEL = 0.95
DEFAULT_RESAMPLES = 16


def student_quantile(level: float, freedom: int) -> float:
    """Return t such that a Student variable is within -t and t with probability `level`.

    In closed form for one and two degrees of freedom; from there by the expansion around the normal
    quantile (Abramowitz and Stegun, 26.7.5), which is right to 0.005 at the level 0.95.

    Examples
    --------
    >>> [round(student_quantile(0.95, n), 2) for n in (1, 2, 3, 10, 1000)]
    [12.71, 4.3, 3.18, 2.23, 1.96]
    """
    check_number("level", level, above=0, below=1)
    check_count("freedom", freedom, least=1)
    p = (1 + level) / 2
    if freedom == 1:
        return tan(pi * (p - 0.5))
    if freedom == 2:
        return (2 * p - 1) * sqrt(2 / (4 * p * (1 - p)))
    x = NormalDist().inv_cdf(p)
    terms = (
        x,
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92_160,
    )
    return fsum(term / float(freedom) ** power for power, term in enumerate(terms))


def mean_half_width(values: Sequence[float], level: float = LEVEL) -> float:
    """Return the half width of Student's interval for the mean of `values`; NaN for fewer than 2.

    It takes the values as independent draws, which rounds are only roughly.
    """
    if len(values) < 2:
        return nan
    spread = stdev(values, mean(values)) / sqrt(len(values))
    return student_quantile(level, len(values) - 1) * spread


def score_half_widths(
    inputs: RoundInputs,
    score: Callable[[RoundInputs], NDArray[np.float64]],
    rng: np.random.Generator,
    *,
    resamples: int = DEFAULT_RESAMPLES,
    level: float = LEVEL,
) -> NDArray[np.float64]:
    """Return half widths of intervals for the scores of a round, from random halves of it.

    Of n independent parameters, the score on a random half differs from the score on all of them
    by as much, in variance, as that differs from the score on infinitely many (n / (n/2) - 1 = 1).
    So the spread over halves around the score, drawn as complementary pairs, is its standard error.
    What it does not cover: other clients, other local data, another round.

    NaN where halves are too small to be scored.
    """
    count = check_count("resamples", resamples, least=2)
    whole = score(inputs)
    squares = np.zeros(inputs.clients)
    taken = 0
    while taken < count:
        order = rng.permutation(inputs.parameters)
        middle = inputs.parameters // 2
        for half in (order[:middle], order[middle:]):
            try:
                squares += (score(restrict(inputs, np.sort(half))) - whole) ** 2
            except InvalidInputError:
                return np.full(inputs.clients, nan)
            taken += 1
    # The two halves of a pair err by about as much in opposite directions: one draw, not two.
    factor = student_quantile(level, taken // 2)
    widths: NDArray[np.float64] = factor * np.sqrt(squares / taken)
    return widths
