"""A round whose updates come one at a time: memory follows the sample, not the model."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedmerit.errors import UpdatesError
from fedmerit.kernels.residual import POSITIVE
from fedmerit.kernels.spans import public_axes
from fedmerit.rng import RandomSource, as_generator
from fedmerit.sampling import choose_strata
from fedmerit.scorers.conditional import (
    TOGETHER,
    ConditionalPCA,
    write_unexplained_signs,
)
from fedmerit.types import Contributions, Signals
from fedmerit.validation import MIN_CLIENTS, check_count, check_frame, check_vector


class StreamedRound:
    """Conditional evidence for clients that report one after the other.

    Which parameters count is drawn when the round is opened and must stay with the server until it
    is closed. Of each update, one byte per sampled parameter is kept (a few of the latest wait as
    floats), so updates can be dropped, or read from memory-mapped files, as they come.

    Parameters
    ----------
    parameters : int
        Length of an update.
    clients : int
        At most so many will report.
    public, layers
        As in `fedmerit.score`.
    scorer : ConditionalPCA
        Its settings; with thousands of clients give it `peers`.
    rng : None, int or Generator

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=5000)
    >>> round_ = StreamedRound(5000, 4, rng=0)
    >>> for client in range(4):
    ...     round_.add(truth + rng.normal(size=5000) if client else rng.normal(size=5000))
    >>> round_.finish().flagged.tolist()
    [True, False, False, False]
    """

    def __init__(
        self,
        parameters: int,
        clients: int,
        *,
        public: ArrayLike | None = None,
        layers: ArrayLike | None = None,
        scorer: ConditionalPCA | None = None,
        rng: RandomSource = None,
    ) -> None:
        self._scorer = scorer or ConditionalPCA()
        self._rng = as_generator(rng)
        self._parameters = check_count("parameters", parameters, least=1)
        limit = check_count("clients", clients, least=MIN_CLIENTS)
        known, layer = check_frame(public, layers, self._parameters)
        self._positions, self._halves = choose_strata(
            self._parameters, known, layer, self._scorer.strata, self._scorer.sample, self._rng
        )
        size = len(self._positions)
        seen = None if known is None else np.ascontiguousarray(known[:, self._positions])
        self._axes = public_axes(seen, self._halves[::2])
        # Memory of rows that are never written is never taken.
        self._signs = np.empty((limit, size), dtype=np.uint8)
        self._explained = np.empty(limit)
        self._waiting = np.empty((min(TOGETHER, limit), size), dtype=np.float32)
        self._added, self._scored = 0, 0

    def add(self, update: ArrayLike) -> None:
        """Take in the next client's update, a vector; clients are numbered as they come."""
        if self._added == len(self._signs):
            raise UpdatesError(f"the round was opened for {len(self._signs)} clients, got one more")
        array = np.asanyarray(update)
        if array.shape != (self._parameters,):
            raise UpdatesError(
                f"an update must be a vector of {self._parameters} parameters, got {array.shape}"
            )
        sampled = check_vector(array[self._positions], name="update")
        self._waiting[self._added - self._scored] = sampled
        self._added += 1
        if self._added - self._scored == len(self._waiting):
            self._take_signs()

    def finish(self) -> Contributions:
        """Close the round and score everybody who reported."""
        if self._added < MIN_CLIENTS:
            raise UpdatesError(
                f"a round must have at least {MIN_CLIENTS} clients, got {self._added}"
            )
        self._take_signs()
        signals = Signals(self._signs[: self._added], POSITIVE + 1)
        shares = self._explained[: self._added]
        return self._scorer.judge(signals, shares, self._halves, self._rng)

    def _take_signs(self) -> None:
        block = slice(self._scored, self._added)
        waiting: NDArray[np.float32] = self._waiting[: self._added - self._scored]
        if len(waiting):
            self._explained[block] = write_unexplained_signs(
                waiting, self._axes, self._halves, self._signs[block]
            )
        self._scored = self._added
