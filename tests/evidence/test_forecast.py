"""The server's own forecast: learned from the past alone, as good as an informed rider's."""

from itertools import accumulate

import numpy as np

from fedmerit.behaviours import ClientView, Informed
from fedmerit.evidence.past import LARGEST, Forecast
from fedmerit.server.history import RoundHistory

SIZE = 20_000


def bent(rng, rounds):
    """Models whose parameters go on where they went twice in one direction, and else stop."""
    updates = [rng.normal(size=SIZE), rng.normal(size=SIZE)]
    for _ in range(rounds):
        last, older = updates[-1], updates[-2]
        goes_on = np.where(last * older > 0, np.sign(last), 0.0)
        updates.append(goes_on + rng.normal(size=SIZE))
    return [model.astype(np.float32) for model in accumulate(updates, initial=np.zeros(SIZE))]


def learned(models):
    known = Forecast()
    for count in range(1, len(models) + 1):
        known = known.after(models[:count])
    return known


def test_nothing_is_forecast_before_there_is_a_past(rng):
    models = bent(rng, 0)
    assert Forecast().of(models) is None
    assert learned(models).of(models) is None


def test_what_followed_in_the_past_is_forecast(rng):
    models = bent(rng, 6)
    forecast = learned(models[:-1]).of(models[:-1])
    happened = models[-1] - models[-2]
    assert np.corrcoef(forecast, happened)[0, 1] > 0.25


def test_updates_that_follow_from_nothing_are_not(rng):
    steps = rng.normal(size=(8, SIZE)).astype(np.float32)
    models = list(np.cumsum(steps, axis=0))
    forecast = learned(models[:-1]).of(models[:-1])
    assert abs(np.corrcoef(forecast, models[-1] - models[-2])[0, 1]) < 0.05


def test_public_information_explains_what_an_informed_rider_reports(rng):
    history = RoundHistory()
    models = bent(rng, 6)
    for model in models:
        history = history.published(model)
    view = ClientView(
        round=9,
        client=0,
        global_model=models[-1],
        global_updates=history.updates,
        update_norms=tuple(float(np.linalg.norm(update)) for update in history.updates[::-1]),
        honest_update=None,
        group_update=None,
        num_examples=1,
        participants=10,
        rng=rng,
        group_rng=rng,
    )
    report = Informed(own=0.0).report(view).update.astype(np.float64)
    public = np.concatenate((history.public.astype(np.float64), np.ones((1, SIZE))))

    def left(vectors):
        found = np.linalg.lstsq(vectors.T, report, rcond=None)[0]
        return np.linalg.norm(report - found @ vectors) / np.linalg.norm(report)

    assert left(public) < 0.5 * left(np.delete(public, -2, axis=0))


def test_models_that_are_large_or_not_finite_are_left_alone(rng):
    models = bent(rng, 3)
    known = learned(models)
    broken = [*models, np.full(SIZE, np.nan, dtype=np.float32)]
    assert known.after(broken) is known
    assert known.of(broken) is None
    large = [np.zeros(LARGEST + 1, dtype=np.float32)] * 4
    assert known.after(large) is known
    assert known.of(large) is None
