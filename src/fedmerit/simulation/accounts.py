"""Accounts that join beside the users, so that runs with and without them can be compared.

The users, what they hold, who is drawn and every draw they make stay the same: extra accounts only
use random streams of their own. (Shares of `FederationConfig.behaviours` replace users instead.)
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours import Assignment, Behaviour
from fedmerit.errors import SettingError
from fedmerit.rng import stream


@dataclass(frozen=True)
class Accounts:
    """Extra accounts, numbered after the users.

    Attributes
    ----------
    behaviours : tuple of Behaviour
        One per account.
    holders : tuple of int
        The user whose data each account claims, and trains on if it trains.
    groups : tuple of (range, count)
        For each behaviour, its accounts and how many of them are drawn for a round.
    """

    behaviours: tuple[Behaviour, ...]
    holders: tuple[int, ...]
    groups: tuple[tuple[range, int], ...]

    @classmethod
    def make(cls, extra: Assignment, users: int, per_round: int, seed: int) -> "Accounts":
        """Open so many accounts that each behaviour has its share of a round's clients."""
        rest = 1 - sum(share for share, _ in extra.parts)
        if extra.parts and rest <= 0:
            raise SettingError("extra accounts must leave room for users, got 100%")
        behaviours: list[Behaviour] = []
        groups = []
        for share, behaviour in extra.parts:
            count = round(per_round * share / rest)
            size = max(count, round(users * share / rest))
            start = users + len(behaviours)
            groups.append((range(start, start + size), count))
            behaviours += [behaviour] * size
        holders = stream(seed, "accounts").integers(0, users, size=len(behaviours))
        return cls(tuple(behaviours), tuple(holders.tolist()), tuple(groups))

    def draw(self, seed: int, number: int) -> list[int]:
        """Return the accounts that take part in a round."""
        rng = stream(seed, "round", number, "accounts")
        return [
            int(account)
            for members, count in self.groups
            for account in np.sort(rng.choice(members, count, replace=False))
        ]
