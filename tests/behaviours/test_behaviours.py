"""What each behaviour reports, and that it sees no more than its view."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedmerit.behaviours import (
    BEHAVIOURS,
    Behaviour,
    ClientView,
    Honest,
    InflatedSize,
    LocalData,
    Noise,
    RandomModel,
    RandomUpdate,
    Report,
    parse_behaviour,
)
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.rng import stream
from tests.behaviours.views import SIZE, view_of


@pytest.mark.parametrize("kind", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_every_behaviour_reports_a_finite_float32_vector_and_leaves_its_view_alone(kind):
    behaviour = kind()
    view = view_of(behaviour)
    before = view.global_model.copy()
    report = behaviour.report(view)
    assert report.update.dtype == np.float32
    assert report.update.shape == (SIZE,)
    assert np.isfinite(report.update).all()
    np.testing.assert_array_equal(view.global_model, before)
    again = behaviour.report(view_of(behaviour))
    np.testing.assert_array_equal(report.update, again.update)


def test_honest_reports_its_work():
    view = view_of(Honest())
    report = Honest().report(view)
    np.testing.assert_array_equal(report.update, view.honest_update)
    assert report.num_examples == 600


def test_random_update_is_noise_of_the_given_sd_around_zero():
    update = RandomUpdate(sd=0.02).report(view_of(RandomUpdate())).update
    assert update.std() == pytest.approx(0.02, rel=0.03)
    assert abs(update.mean()) < 4 * 0.02 / np.sqrt(SIZE)


def test_random_model_turns_the_global_model_into_noise():
    view = view_of(RandomModel())
    model = view.global_model + RandomModel(sd=0.02).report(view).update
    assert model.std() == pytest.approx(0.02, rel=0.03)


def test_noise_is_added_to_the_honest_update():
    view = view_of(Noise())
    added = Noise(sd=0.05).report(view).update - view.trained
    assert added.std() == pytest.approx(0.05, rel=0.03)
    assert abs(np.corrcoef(added, view.trained)[0, 1]) < 4 / np.sqrt(SIZE)


def test_inflated_size_changes_the_claim_only():
    view = view_of(InflatedSize())
    report = InflatedSize(factor=2.5).report(view)
    assert report.num_examples == 1500
    np.testing.assert_array_equal(report.update, view.trained)


def test_riders_have_no_honest_update_to_look_at():
    with pytest.raises(RuntimeError, match="did not train"):
        _ = view_of(RandomUpdate()).trained


def test_the_interface_holds_data_cheats_and_colluders():
    @dataclass(frozen=True)
    class Colluder(Behaviour):
        name = "colluder"
        trains = False

        def report(self, view: ClientView) -> Report:
            return Report(view.group_rng.standard_normal(4, dtype=np.float32), 1)

    @dataclass(frozen=True)
    class Lazy(Honest):
        name = "lazy"

        def local_data(self, data: LocalData, rng: np.random.Generator) -> LocalData:
            keep = rng.choice(len(data.y), size=2, replace=False)
            return LocalData(data.x[keep], data.y[keep])

    first, second = (Colluder().report(view_of(Colluder(), client)).update for client in (0, 1))
    np.testing.assert_array_equal(first, second)
    data = LocalData(np.zeros((9, 3), np.float32), np.arange(9))
    assert len(Lazy().local_data(data, stream(0)).y) == 2
    assert Honest().local_data(data, stream(0)) is data


def test_names_parse_to_behaviours_and_labels_parse_back():
    assert parse_behaviour("noise : 0.05") == Noise(sd=0.05)
    for kind in BEHAVIOURS.values():
        assert parse_behaviour(kind().label) == kind()


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("nose:1", UnknownNameError, "did you mean 'noise'"),
        ("noise:x", SettingError, "sd must be a number, got 'x'"),
        ("noise:-1", SettingError, "sd must be at least 0, got -1"),
        ("honest:1", SettingError, "takes at most 0 settings, got 1"),
        ("inflated-size:0.5", SettingError, "factor must be at least 1"),
    ],
)
def test_what_cannot_be_read_says_why(text, error, message):
    with pytest.raises(error, match=message):
        parse_behaviour(text)
