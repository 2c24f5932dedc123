"""A free rider that knows the scorer completely and forecasts what honest clients will report.

Source: ours. The scorer takes off what public vectors explain linearly. Updates of successive
rounds are also related in other ways: a parameter that moved twice in one direction will move
again, and by more where the model is large. This rider learns such a rule from the past, where the
right answer has been published, and applies it to the present.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number

Matrix = NDArray[np.float64]
_RIDGE = 1e-3


@dataclass(frozen=True)
class Informed(Behaviour):
    """Report g plus the part of a forecast of the next global update that is not linear in public.

    The rule is fitted by ridge regression of every known global update on functions of the two
    before it and of the model they led to. With fewer than three global updates there is nothing
    to learn from (rounds 1 to 3), and g alone is reported; zeros in round 1.

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
    size: float = 6.0
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
    """Return what a rule that held in the past predicts now, less what is linear in public."""
    updates = [update.astype(np.float64) for update in view.global_updates]
    model = view.global_model.astype(np.float64)
    products, towards, then = np.zeros((1, 1)), np.zeros(1), model
    for target, last, older in zip(updates, updates[1:], updates[2:], strict=False):
        then = then - target
        known = _functions(last, older, then)
        products, towards = products + known @ known.T, towards + known @ _unit(target)
    ridge = _RIDGE * np.mean(np.diagonal(products)) * np.eye(len(products))
    rule = np.linalg.lstsq(products + ridge, towards, rcond=None)[0]
    forecast: Matrix = rule @ _functions(updates[0], updates[1], model)
    public = np.stack([*map(_unit, (*updates, model)), np.ones_like(model)])
    linear = np.linalg.lstsq(public @ public.T, public @ forecast, rcond=None)[0]
    hidden: Matrix = forecast - linear @ public
    return hidden


def _functions(last: Matrix, older: Matrix, model: Matrix) -> Matrix:
    """Return odd functions of two successive updates and the model, one row each."""
    a, b, w = _unit(last), _unit(older), _unit(model)
    root = np.sqrt(np.abs(a * b))
    return np.stack(
        [
            *(a, b, w),
            *(b * np.abs(a), a * np.abs(b), a * np.abs(a), b * np.abs(b)),
            *(np.sign(a) * root, np.sign(b) * root),
            *(np.sign(a) * np.sqrt(np.abs(a)), np.sign(b) * np.sqrt(np.abs(b))),
            *(np.sign(a), np.sign(b)),
            *(w * np.abs(a), a * np.abs(w)),
            *(np.minimum(a, b), np.maximum(a, b)),
        ]
    )


def _unit(vector: Matrix) -> Matrix:
    """Scale to a root mean square of 1; zeros stay zeros."""
    return vector / max(_root_mean_square(vector), 1e-300)


def _root_mean_square(vector: NDArray[np.floating]) -> float:
    return float(np.sqrt(np.square(vector, dtype=np.float64).mean()))
