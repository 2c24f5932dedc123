"""What a round leaves behind: a record per client, and the seconds each phase took."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours import Report
from fedmerit.incentive.rewards import Payments
from fedmerit.types import ClientRecord, Contributions, Rejection


def client_records(
    clients: Sequence[int],
    labels: Sequence[str],
    reports: Sequence[Report],
    weights: NDArray[np.float64],
    contributions: Contributions | None,
    payments: Payments | None,
    rejected: Sequence[Rejection] = (),
) -> tuple[ClientRecord, ...]:
    """Put together what is known about each client of a round; NaN scores where none were made.

    A client whose reply was rejected is among them only if the reward rule pays it nevertheless.
    """
    if contributions is None:
        contributions = Contributions.of("none", np.full(len(clients), np.nan))
    reasons = contributions.reasons_for([str(client) for client in clients])
    rewards = {} if payments is None else payments.by_client()
    used = tuple(
        ClientRecord(
            client=str(client),
            score=float(contributions.scores[row]),
            weight=float(weights[row]),
            p_value=_number(contributions.p_values[row]),
            epsilon=_number(contributions.epsilon[row]),
            flagged=bool(contributions.flagged[row]),
            reason=reasons[row],
            reward=rewards.get(str(client)),
            num_examples=reports[row].num_examples,
            behaviour=labels[row],
        )
        for row, client in enumerate(clients)
    )
    return used + tuple(
        ClientRecord(
            client=refused.client,
            score=math.nan,
            weight=math.nan,
            reason=f"rejected: {refused.reason}",
            reward=rewards[refused.client],
        )
        for refused in rejected
        if rewards.get(refused.client)
    )


def _number(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `name`."""
        begin = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
