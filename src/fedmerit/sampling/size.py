"""How many parameters are enough: for the paper's guarantee, and for scoring on a sample."""

from math import ceil, log

from fedmerit.validation import check_count, check_levels, check_number

# Theorem 1 states O(9 h^2 log(1/delta) / epsilon^2). The 9 is the paper's; the constant hidden in
# the O is not given there and is taken as 1.
_PAPER_FACTOR = 9
# Of epsilon and delta: squares and inverses of much smaller numbers are not finite.
_SMALLEST = 1e-100


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
    epsilon = check_number("epsilon", epsilon, least=_SMALLEST)
    delta = check_number("delta", delta, least=_SMALLEST, below=1)
    return ceil(_PAPER_FACTOR * h**2 * log(1 / delta) / epsilon**2)


def sample_size(epsilon: float, delta: float, clients: int) -> int:
    """Return how many parameters to sample so that no pair's agreement is off by much.

    The share of sampled parameters on which two clients agree differs from the share among all by
    more than `epsilon` for any pair of `clients`, with probability at most `delta`. By Hoeffding's
    inequality, which also holds for sampling without replacement (Hoeffding 1963, section 6), and
    a union bound over the pairs. It does not depend on the size of the model. The bound holds for
    a fixed notion of which levels agree; scores estimate that on the sample as well, which adds to
    the error (docs/results/performance.md has what was seen).

    Examples
    --------
    >>> sample_size(epsilon=0.02, delta=0.01, clients=20)
    13182
    """
    epsilon = check_number("epsilon", epsilon, least=_SMALLEST, most=1)
    delta = check_number("delta", delta, least=_SMALLEST, below=1)
    pairs = check_count("clients", clients, least=2) * (clients - 1) / 2
    return ceil(log(2 * pairs / delta) / (2 * epsilon**2))
