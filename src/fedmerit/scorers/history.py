"""What a server remembers from round to round, so that scores can use it."""

from collections import OrderedDict, deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedmerit.types import Contributions, FloatArray, RoundInputs
from fedmerit.validation import check_count, check_round

OLDER_UPDATES = 10
REMEMBERED_CLIENTS = 1000


class RoundHistory:
    """Public vectors, each client's previous report, and the trust it has earned.

    Parameters
    ----------
    older
        How many global updates are kept as public information. One that is older than that could be
        replayed; each costs one vector.
    clients
        How many clients' previous reports are kept; the longest absent are forgotten first.
    """

    def __init__(self, older: int = OLDER_UPDATES, clients: int = REMEMBERED_CLIENTS) -> None:
        self._models: deque[FloatArray] = deque(maxlen=check_count("older", older, least=1) + 1)
        self._limit = check_count("clients", clients, least=1)
        self._previous: OrderedDict[str, FloatArray] = OrderedDict()
        self._trust: dict[str, float] = {}

    def publish(self, model: FloatArray) -> None:
        """Remember a global model that is sent to clients."""
        self._models.append(model.copy())

    @property
    def public(self) -> FloatArray | None:
        """The last global update, the current global model, then older updates; None before any."""
        if not self._models:
            return None
        models = list(self._models)
        updates = [models[t] - models[t - 1] for t in range(len(models) - 1, 0, -1)]
        return np.stack([*updates[:1], models[-1], *updates[1:]])

    def inputs(
        self, clients: Sequence[str], updates: ArrayLike, layers: ArrayLike | None = None
    ) -> RoundInputs:
        """Return checked inputs for a scorer: `updates` with everything remembered."""
        plain = check_round(updates, self.public, layers)
        matrix = plain.updates
        if not isinstance(matrix, np.ndarray):
            return plain
        previous = np.zeros_like(matrix)
        for row, client in enumerate(clients):
            if client in self._previous:
                previous[row] = self._previous[client]
        trust: NDArray[np.float64] = np.array([self._trust.get(client, 0.0) for client in clients])
        return RoundInputs(
            updates=matrix,
            public=plain.public,
            layers=plain.layers,
            previous=previous,
            trust=trust,
        )

    def remember(self, clients: Sequence[str], updates: FloatArray, result: Contributions) -> None:
        """Keep the reports of a round and the work they showed."""
        for row, client in enumerate(clients):
            self._previous[client] = updates[row].copy()
            self._previous.move_to_end(client)
            if not np.isnan(result.work[row]):
                self._trust[client] = self._trust.get(client, 0.0) + float(result.work[row])
        while len(self._previous) > self._limit:
            self._previous.popitem(last=False)
