"""Values where the server sees sums of groups only, as secure aggregation gives them.

In every round the clients are put into random groups, each client into one, and the server learns
the weighted mean update of every group: sums of one round do not overlap, so no difference of two
of them tells more. Judges compare unions of groups that they do not belong to. Groups are drawn
anew every round, and the regression over rounds tells their members apart.

What is lost, beside precision: without single updates there is no evidence of work, near-copies
are not seen, nobody's length is bounded, and in a round its whole group is behind a client: bets on
harm would blame its companions, so there are none. Whom values show to be worth little can be asked
to stay away from the next round on.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import SettingError
from fedmerit.panel.bench import Bench
from fedmerit.panel.book import HeardRound
from fedmerit.panel.rules import Panel
from fedmerit.types import FloatArray
from fedmerit.validation import check_count

Groups = Mapping[str, tuple[str, ...]]
# A judge leaves its own group out, and compares two others.
_FEWEST_GROUPS = 3


def draw_groups(clients: Sequence[str], size: int, rng: np.random.Generator) -> Groups:
    """Put clients into random groups of at least `size`, which must be enough to hide one."""
    check_count("size", size, least=2)
    count = len(clients) // size
    if count < _FEWEST_GROUPS:
        raise SettingError(
            f"clients must fill {_FEWEST_GROUPS} groups of {size}, got {len(clients)} clients"
        )
    parts = np.array_split(rng.permutation(len(clients)), count)
    return {
        f"group {number}": tuple(sorted(clients[place] for place in part))
        for number, part in enumerate(parts)
    }


def seat_groups(
    panel: Panel,
    number: int,
    groups: Groups,
    means: FloatArray,
    weights: NDArray[np.float64],
    before: FloatArray,
    after: FloatArray,
) -> Bench:
    """Return the bench of a round of groups; ask it with ``own=own_groups(groups)``.

    Parameters
    ----------
    panel : Panel
    number : int
        Of the round.
    groups : mapping of name to clients
    means : (g, d) float array
        The mean update of every group, in their order.
    weights : (g,) float
        What each group weighs: the sum of its members' weights.
    before, after : vector
        The model that clients started from, and the new one.
    """
    return Bench(panel, number, tuple(groups), means, weights, before, after)


def own_groups(groups: Groups) -> dict[str, str]:
    """Return the group of every client."""
    return {client: name for name, members in groups.items() for client in members}


def by_member(heard: HeardRound, groups: Groups, weights: Mapping[str, float]) -> HeardRound:
    """Return judgements of groups as judgements of their members."""
    clients = tuple(client for members in groups.values() for client in members)
    place = {client: number for number, client in enumerate(clients)}

    def members(side: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(place[client] for number in side for client in groups[heard.clients[number]])

    return HeardRound(
        heard.round,
        clients,
        tuple(float(weights[client]) for client in clients),
        tuple((judge, members(left), members(right)) for judge, left, right in heard.pairs),
        heard.differences,
        heard.gains,
    )
