"""A round of an engine, settled or skipped; the global model is never poisoned."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.adapters.layout import Layout
from fedmerit.errors import InvalidInputError
from fedmerit.rounds import Replies, RoundRules, Settlement, settle_round
from fedmerit.scorers import RoundHistory
from fedmerit.types import Rejection

Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Outcome:
    """What a round comes to, and the trained arrays after it; both None where it was skipped."""

    settlement: Settlement
    model: Arrays | None = None
    change: Arrays | None = None


def settle_or_skip(
    rules: RoundRules,
    history: RoundHistory,
    replies: Replies,
    rng: np.random.Generator,
    layout: Layout,
    rejected: Sequence[Rejection],
) -> Outcome:
    """Settle a round; where that cannot be, every reply is refused with the reason."""
    try:
        settled = settle_round(
            rules, history, replies, rng, layers=layout.layers, rejected=rejected
        )
        if settled.change is None:
            return Outcome(settled)
        model = (history.models[-1] + settled.change).astype(layout.dtype, copy=False)
        return Outcome(settled, layout.cut(model), layout.cut(settled.change))
    except InvalidInputError as error:
        reason = f"round skipped: {error}"
        skipped = tuple(Rejection(client, reason) for client in replies.clients)
        return Outcome(Settlement(None, (), (*rejected, *skipped), history))
