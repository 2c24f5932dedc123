"""A free rider that knows the scorer completely and forecasts what honest clients will report.

Source: ours. The scorer takes off what public vectors explain linearly. Updates of successive
rounds are also related in other ways: a parameter that moved twice in one direction will move
again, and by more where the model is large. This rider makes a table of the past, where the right
answer has been published: which way parameters went that had moved so, and so the time before, and
stood there. It looks up the present in it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number

Matrix = NDArray[np.float64]
# Bins of the table: by the last update, the one before it, and the model.
_BINS = (32, 12, 6)
# Where bins begin is found from so many parameters.
_SAMPLED = 20_000


@dataclass(frozen=True)
class Informed(Behaviour):
    """Report g plus the part of a forecast of the next global update that is not linear in public.

    With fewer than three global updates there is nothing to learn from (rounds 1 to 3), and g alone
    is reported; zeros in round 1.

    Parameters
    ----------
    size : float
        Norm of the forecast part relative to that of g. Honest updates are a few times as long as
        their mean, and scores that follow size can be had by length.
    replay : float
        How much of g is added, so that the report points where the federation goes.
    own : float
        Norm of noise relative to that of the forecast part: riders who all forecast the same would
        be seen to be copies.
    """

    name = "informed"
    trains = False
    size: float = 3.0
    replay: float = 1.0
    own: float = 0.25

    def __post_init__(self) -> None:
        check_number("size", self.size, least=0)
        check_number("replay", self.replay)
        check_number("own", self.own, least=0)

    def report(self, view: ClientView) -> Report:
        """Report the forecast."""
        report = view.last_update * np.float32(self.replay)
        if len(view.global_updates) > 2:
            hidden = self.size * _root_mean_square(view.last_update) * _unit(_forecast(view))
            noise = gaussian(view.rng, hidden.size, self.own * _root_mean_square(hidden))
            report = report + hidden + noise
        return Report(report.astype(np.float32), view.num_examples)


def _forecast(view: ClientView) -> Matrix:
    """Return which way parameters like these went in the past, less what is linear in public."""
    updates = [update.astype(np.float64) for update in view.global_updates]
    model = view.global_model.astype(np.float64)
    went, seen = np.zeros(np.prod(_BINS)), np.zeros(np.prod(_BINS))
    then = model
    for target, last, older in zip(updates, updates[1:], updates[2:], strict=False):
        then = then - target
        cells = _cells(last, older, then)
        went += np.bincount(cells, np.sign(_beyond(target, [last, older, then])), len(went))
        seen += np.bincount(cells, minlength=len(seen))
    forecast = (went / np.maximum(seen, 1))[_cells(updates[0], updates[1], model)]
    return _beyond(forecast, [*updates, model])


def _cells(*vectors: Matrix) -> NDArray[np.int64]:
    """Return the cell of each parameter: by each vector's quantile."""
    return np.ravel_multi_index(
        tuple(_quantile(vector, bins) for vector, bins in zip(vectors, _BINS, strict=True)), _BINS
    )


def _quantile(vector: Matrix, bins: int) -> NDArray[np.int64]:
    step = max(1, vector.size // _SAMPLED)
    return np.searchsorted(np.quantile(vector[::step], np.arange(1, bins) / bins), vector)


def _beyond(vector: Matrix, public: list[Matrix]) -> Matrix:
    """Return what linear regression on public vectors leaves."""
    known = np.stack([*map(_unit, public), np.ones_like(vector)])
    linear = np.linalg.lstsq(known @ known.T, known @ vector, rcond=None)[0]
    rest: Matrix = vector - linear @ known
    return rest


def _unit(vector: Matrix) -> Matrix:
    """Scale to a root mean square of 1; zeros stay zeros."""
    return vector / max(_root_mean_square(vector), 1e-300)


def _root_mean_square(vector: NDArray[np.floating]) -> float:
    return float(np.sqrt(np.square(vector, dtype=np.float64).mean()))
