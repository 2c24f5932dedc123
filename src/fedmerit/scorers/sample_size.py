"""How many parameters are enough for the paper's guarantee."""

from math import ceil, log

from fedmerit.validation import check_levels, check_number

# Theorem 1 states O(9 h^2 log(1/delta) / epsilon^2). The 9 is the paper's; the constant hidden in
# the O is not given there and is taken as 1.
_PAPER_FACTOR = 9


def required_parameters(levels: int, epsilon: float, delta: float) -> int:
    """Return the number of parameters after Theorem 1 of the paper.

    With that many, the mechanism is `epsilon`-informed incentive compatible with probability at
    least ``1 - delta``. The theorem states an order; its hidden constant is taken as 1.

    Examples
    --------
    >>> required_parameters(levels=8, epsilon=0.1, delta=0.05)
    172555
    """
    h = check_levels(levels)
    epsilon = check_number("epsilon", epsilon, above=0)
    delta = check_number("delta", delta, above=0, below=1)
    return ceil(_PAPER_FACTOR * h**2 * log(1 / delta) / epsilon**2)
