"""Money as integers of the smallest unit, and its exact division.

Nothing here rounds in floating point. Shares are taken as the exact rational numbers they are, a
fair amount is a ratio of integers, and whole units are handed out by largest remainder. Hence three
laws hold to the last unit: the parts add up, the order of the clients does not matter, and raising
one share never lowers the amount it is given.
"""

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction

from fedmerit.errors import InvalidInputError, SettingError

Share = float | int | Decimal | Fraction

# Decimal's exponential is correctly rounded, hence monotone; that of the C library need not be. 34
# digits are far below one unit of any budget.
_EXP = Context(prec=34, Emin=-(10**12), Emax=10**12)
# A share this many powers of ten below the largest is zero: it could not earn a unit, and its exact
# ratio would have more digits than there is room for.
_NEGLIGIBLE = 60
_MAX_EXPONENT = 1e9
# What a ledger, and most programs of banks, can hold.
MOST = 2**63 - 1


def split(
    budget: int,
    shares: Sequence[Share],
    clients: Sequence[str],
    *,
    floor: int = 0,
    cap: int | None = None,
) -> list[int]:
    """Divide `budget` in proportion to `shares`, no part below `floor` or above `cap`.

    The fair amount of a client is its share times one common factor, clipped to the bounds, the
    factor being such that the amounts add up to the budget. Its whole units are paid, and what is
    left goes one unit each to the largest remainders; among equal remainders, to the client whose
    id comes first.

    Parameters
    ----------
    budget : int
        What there is to divide, in the smallest unit; at least ``floor * len(shares)``.
    shares : sequence of non-negative finite numbers
        One per client; a client with share zero gets the floor.
    clients : sequence of str
        Different ids, which break ties.
    floor, cap : int
        Bounds of every part.

    Returns
    -------
    list of int
        One amount per client. They add up to the budget, unless every client with a positive share
        has reached the cap, or there is no such client: then they add up to less.

    Examples
    --------
    >>> split(100, [1.0, 1.0, 1.0], ["ann", "bob", "cat"])
    [34, 33, 33]
    >>> split(100, [8.0, 1.0, 1.0], ["ann", "bob", "cat"], cap=50)
    [50, 25, 25]
    """
    _check(budget, shares, clients, floor, cap)
    weights = _as_integers(shares)
    active = [index for index, weight in enumerate(weights) if weight > 0]
    amounts = [floor] * len(weights)
    left = budget - floor * (len(weights) - len(active))
    if cap is not None and cap * len(active) <= left:
        for index in active:
            amounts[index] = cap
        return amounts
    active, left = _hold_at_bounds(amounts, weights, active, left, floor, cap)
    total = sum(weights[index] for index in active)
    remainders = []
    for index in active:
        amounts[index], remainder = divmod(left * weights[index], total)
        remainders.append((-remainder, clients[index], index))
    missing = left - sum(amounts[index] for index in active)
    for _, _, index in sorted(remainders)[:missing]:
        amounts[index] += 1
    return amounts


def exponential_shares(exponents: Sequence[float]) -> list[Decimal]:
    """Return exp of each exponent, so that a larger exponent never has a smaller share.

    Each share depends on its own exponent alone, except that shares negligible beside the largest
    become zero.
    """
    for exponent in exponents:
        if not abs(exponent) <= _MAX_EXPONENT:
            raise InvalidInputError(
                f"alpha times a score must be between -{_MAX_EXPONENT:g} and {_MAX_EXPONENT:g}, "
                f"got {exponent:g}"
            )
    shares = [Decimal(exponent).exp(_EXP) for exponent in exponents]
    highest = max((share.adjusted() for share in shares), default=0)
    shift = Decimal(-highest)  # a common power of ten: exact, and keeps the ratios small
    return [
        share.scaleb(shift, _EXP) if share.adjusted() > highest - _NEGLIGIBLE else Decimal(0)
        for share in shares
    ]


def _hold_at_bounds(
    amounts: list[int],
    weights: list[int],
    active: list[int],
    left: int,
    floor: int,
    cap: int | None,
) -> tuple[list[int], int]:
    """Fix the clients whose fair amount is outside the bounds; return the others and their money.

    In every pass the side with the larger total violation is final: freeing its clients again could
    only push them further out. (Flexible boxes on a page are sized by the same argument.)
    """
    while active:
        total = sum(weights[index] for index in active)
        fair = {index: left * weights[index] for index in active}  # in units of 1 / total
        low = [index for index in active if fair[index] < floor * total]
        high = [] if cap is None else [index for index in active if fair[index] > cap * total]
        if not low and not high:
            break
        under = sum(floor * total - fair[index] for index in low)
        over = sum(fair[index] - (cap or 0) * total for index in high)
        bound, held = (floor, low) if under > over else (cap or 0, high)
        for index in held:
            amounts[index] = bound
        left -= bound * len(held)
        gone = set(held)
        active = [index for index in active if index not in gone]
    return active, left


def _as_integers(shares: Sequence[Share]) -> list[int]:
    """Scale exact shares by their common denominator."""
    ratios = [share.as_integer_ratio() for share in shares]
    common = math.lcm(*(denominator for _, denominator in ratios))
    return [numerator * (common // denominator) for numerator, denominator in ratios]


def _check(
    budget: int, shares: Sequence[Share], clients: Sequence[str], floor: int, cap: int | None
) -> None:
    check_amount("budget", budget)
    check_amount("floor", floor)
    if cap is not None:
        check_amount("cap", cap)
        if cap < floor:
            raise SettingError(f"cap must be at least the floor, {floor}, got {cap}")
    check_clients(clients, len(shares))
    for share in shares:
        if not math.isfinite(share) or share < 0:
            raise InvalidInputError(f"shares must be finite and not negative, got {share}")
    if floor * len(shares) > budget:
        raise SettingError(
            f"budget must cover the floor of every client, {len(shares)} x {floor}, got {budget}"
        )


def check_amount(name: str, value: object) -> int:
    """Check an amount of money: a non-negative integer of the smallest unit."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingError(f"{name} must be an integer of the smallest unit, got {value!r}")
    if value < 0:
        raise SettingError(f"{name} must not be negative, got {value}")
    if value > MOST:
        raise SettingError(f"{name} must be at most {MOST}, got {value}")
    return value


def check_clients(clients: Sequence[str], count: int) -> tuple[str, ...]:
    """Check that there are `count` different client ids."""
    ids = tuple(clients)
    if len(ids) != count:
        raise InvalidInputError(f"clients must have one id per score, {count}, got {len(ids)}")
    seen: set[str] = set()
    for client in ids:
        if not isinstance(client, str):
            raise InvalidInputError(f"client ids must be text, got {client!r}")
        if client in seen:
            raise InvalidInputError(f"client ids must be different, got {client!r} twice")
        seen.add(client)
    return ids
