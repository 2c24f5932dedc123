"""Contribution by utility: what a set of clients is worth, given a function that tells.

A utility takes a tuple of client indices in ascending order and returns a number, such as the test
accuracy of the model that these clients' updates give; the empty tuple is the model before the
round. These functions need what the other scorers do without, and are here to compare with.

==========================  ===========================================  =======================
function                    value of client i                            utilities asked
==========================  ===========================================  =======================
`individual`                u({i}) - u({})                               k + 1
`leave_one_out`             u(all) - u(all but i)                        k + 1
`exact_shapley`             mean gain over all orders of arrival         2^k, k at most 10
`truncated_shapley`         the same over random orders, cut short       at most orders * k
`gtg_shapley`               the same, every client first equally often   at most orders * k
==========================  ===========================================  =======================
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from fedmerit.rng import RandomSource, as_generator
from fedmerit.validation import check_count, check_number

Utility = Callable[[tuple[int, ...]], float]
Values = NDArray[np.float64]
MOST_EXACT = 10
_WINDOW = 10  # sweeps (of k orders) between two looks at whether values still change


def individual(utility: Utility, clients: int) -> Values:
    """Return what each client is worth on its own."""
    count = check_count("clients", clients, least=1)
    nothing = utility(())
    return np.array([utility((i,)) - nothing for i in range(count)])


def leave_one_out(utility: Utility, clients: int) -> Values:
    """Return what would be missing without each client."""
    count = check_count("clients", clients, least=1)
    everybody = tuple(range(count))
    total = utility(everybody)
    return np.array([total - utility(everybody[:i] + everybody[i + 1 :]) for i in everybody])


def exact_shapley(utility: Utility, clients: int) -> Values:
    """Return the Shapley values from all 2^k utilities, each asked once; k is at most 10."""
    count = check_count("clients", clients, least=1, most=MOST_EXACT)
    worth = {
        chosen: utility(chosen)
        for size in range(count + 1)
        for chosen in combinations(range(count), size)
    }
    values = np.zeros(count)
    for chosen, without in worth.items():
        share = 1 / (count * comb(count - 1, len(chosen))) if len(chosen) < count else 0.0
        for i in set(range(count)) - set(chosen):
            values[i] += share * (worth[tuple(sorted((*chosen, i)))] - without)
    return values


def truncated_shapley(
    utility: Utility,
    clients: int,
    *,
    orders: int = 200,
    tolerance: float = 0.01,
    rng: RandomSource = None,
) -> Values:
    """Estimate Shapley values over random orders, each cut short where little is left to gain.

    Truncated Monte Carlo of Ghorbani and Zou, "Data Shapley" (ICML 2019).

    Parameters
    ----------
    orders : int
        How many orders of arrival are drawn.
    tolerance : float
        The rest of an order counts as adding nothing once its utility is this close to that of all
        clients, relative to what all of them add to nobody.
    """
    count = check_count("clients", clients, least=1)
    check_count("orders", orders, least=1)
    check_number("tolerance", tolerance, least=0)
    generator = as_generator(rng)
    game = _Game(utility, count, tolerance)
    drawn = (generator.permutation(count) for _ in range(orders))
    return np.mean([game.gains(order) for order in drawn], axis=0)  # type: ignore[no-any-return]


def gtg_shapley(
    utility: Utility,
    clients: int,
    *,
    orders: int = 500,
    tolerance: float = 0.01,
    between: float = 0.0,
    converged: float = 0.01,
    rng: RandomSource = None,
) -> Values:
    """Estimate Shapley values over guided orders: every client comes first equally often.

    Liu, Chen, Yu, Liu and Cui, "GTG-Shapley: efficient and accurate participant contribution
    evaluation in federated learning" (ACM TIST 2022), for one round. Their reconstruction of models
    from updates is up to the utility.

    Parameters
    ----------
    orders : int
        At most this many orders of arrival, rounded up to whole sweeps of k.
    tolerance : float
        As for `truncated_shapley`.
    between : float
        A round that changes the utility by no more than this is worth nothing to anybody.
    converged : float
        Stop when the mean relative change of the values over ten sweeps is below this.
    """
    count = check_count("clients", clients, least=1)
    check_count("orders", orders, least=1)
    check_number("tolerance", tolerance, least=0)
    check_number("between", between, least=0)
    check_number("converged", converged, least=0)
    generator = as_generator(rng)
    game = _Game(utility, count, tolerance)
    values = np.zeros(count)
    if abs(game.gain_of_all) <= between:
        return values
    before = values
    for sweep, guided in enumerate(_sweeps(count, orders, generator), start=1):
        gains = np.mean([game.gains(order) for order in guided], axis=0)
        values = values + (gains - values) / sweep
        if sweep % _WINDOW == 0:
            scale = np.maximum(np.abs(values), np.finfo(np.float64).tiny)
            if float(np.mean(np.abs(values - before) / scale)) < converged:
                break
            before = values
    return values


def _sweeps(
    clients: int, orders: int, rng: np.random.Generator
) -> Iterator[list[NDArray[np.int64]]]:
    for _ in range(-(-orders // clients)):
        sweep = []
        for first in range(clients):
            others = np.delete(np.arange(clients), first)
            sweep.append(np.concatenate(([first], rng.permutation(others))))
        yield sweep


class _Game:
    """A utility that is asked only once for each set, and its gains along an order."""

    def __init__(self, utility: Utility, clients: int, tolerance: float) -> None:
        self._utility = utility
        self._known: dict[tuple[int, ...], float] = {}
        self._total = self._worth(range(clients))
        self._margin = tolerance * abs(self.gain_of_all)

    @property
    def gain_of_all(self) -> float:
        return self._total - self._worth(())

    def gains(self, order: NDArray[np.int64]) -> Values:
        result = np.zeros(len(order))
        reached = self._worth(())
        for place, client in enumerate(order):
            if place and abs(self._total - reached) <= self._margin:
                break
            following = self._worth(order[: place + 1].tolist())
            result[client] = following - reached
            reached = following
        return result

    def _worth(self, chosen: Sequence[int]) -> float:
        key = tuple(sorted(chosen))
        if key not in self._known:
            self._known[key] = self._utility(key)
        return self._known[key]
