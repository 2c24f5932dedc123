"""Each recipe, by its formula; and none looks at more than such a client can see."""

from math import exp, log, sqrt

import numpy as np
import pytest

from fedmerit.behaviours import (
    BEHAVIOURS,
    Adaptive,
    AdvancedDelta,
    AdvancedRider,
    Averaged,
    Boost,
    Colluders,
    Copies,
    Disguised,
    Extrapolated,
    FakeData,
    Informed,
    LabelFlip,
    Lazy,
    LocalData,
    LoudFlip,
    Mixed,
    Older,
    Renaming,
    Rotating,
    SignFlip,
    SignMimic,
    Stale,
    UniformModel,
    Zero,
)
from fedmerit.errors import SettingError
from fedmerit.rng import stream
from tests.behaviours.views import SIZE, history, vector, view_of

g = history(3)[0]
model = vector("model")
work = np.linspace(-1, 1, SIZE, dtype=np.float32)
REPLAYS = (
    Adaptive,
    AdvancedDelta,
    AdvancedRider,
    Averaged,
    Disguised,
    Extrapolated,
    Informed,
    Older,
    Renaming,
    SignMimic,
    Stale,
    Zero,
)


def reported(behaviour, **about):
    return behaviour.report(view_of(behaviour, **about)).update


def samples(count=200):
    y = np.arange(count) % 10
    return LocalData(np.ones((count, 1, 3, 3), np.float32) * y[:, None, None, None], y)


def test_zero_and_stale():
    assert not reported(Zero()).any()
    np.testing.assert_array_equal(reported(Stale()), g)


def test_older_averaged_and_extrapolated_replays():
    last, before, oldest = history(3)
    np.testing.assert_array_equal(reported(Older(rounds=1)), last)
    np.testing.assert_array_equal(reported(Older(rounds=2)), before)
    np.testing.assert_array_equal(reported(Older(rounds=9)), oldest)
    np.testing.assert_allclose(reported(Averaged(rounds=2)), (last + before) / 2, atol=1e-9)
    np.testing.assert_allclose(
        reported(Averaged(), rounds=2), sum(history(2)) / np.float32(2), atol=1e-9
    )
    np.testing.assert_allclose(reported(Extrapolated()), 2 * last - before, atol=1e-9)
    np.testing.assert_array_equal(reported(Extrapolated(), rounds=1), history(1)[0])


def test_mixed_has_the_length_of_work_and_mostly_the_direction_of_the_replay():
    np.testing.assert_array_equal(reported(Mixed(), rounds=0), work)
    scaled = g * (np.linalg.norm(work.astype(float)) / np.linalg.norm(g.astype(float)))
    np.testing.assert_allclose(reported(Mixed(own=0.25)), 0.25 * work + 0.75 * scaled, atol=1e-6)


def test_rotating_works_for_some_rounds_and_then_sends_that_again():
    past = tuple(work * factor for factor in (1, 2, 3, 4))
    sent = []
    for rounds in range(9):
        view = view_of(Rotating(), rounds=rounds)
        view = type(view)(**{**vars(view), "own_reports": past[:rounds]})
        sent.append(Rotating().report(view).update)
    for early in sent[:4]:
        np.testing.assert_array_equal(early, work)
    factors = [float(late[-1] / work[-1]) for late in sent[4:]]
    assert sorted(factors[:4]) == [1, 2, 3, 4]
    assert factors[4] == factors[0]


def test_renaming_replays_under_names_that_do_not_last():
    np.testing.assert_array_equal(reported(Renaming()), g)
    names = [Renaming(rounds=2).account(5, number) for number in range(1, 7)]
    assert names == ["5-0", "5-0", "5-1", "5-1", "5-2", "5-2"]
    assert Stale().account(5, 3) == "5"


def test_advanced_delta_is_the_replay_under_noise():
    noise = reported(AdvancedDelta(sd=1e-3)) - g
    assert noise.std() == pytest.approx(1e-3, rel=0.03)
    np.testing.assert_array_equal(reported(AdvancedDelta(sd=0)), g)


def test_adaptive_draws_one_of_three_sizes_per_parameter():
    noise = (reported(Adaptive(sd=1.0)) - g).astype(float)
    # A third each with sd 1, 0.1 and 0.01: the second and fourth moments say so.
    assert np.mean(noise**2) == pytest.approx((1 + 1e-2 + 1e-4) / 3, rel=0.06)
    assert np.mean(noise**4) == pytest.approx(3 * (1 + 1e-4 + 1e-8) / 3, rel=0.15)
    assert np.mean(np.abs(noise) < 0.03) == pytest.approx((0.024 + 0.236 + 0.997) / 3, rel=0.05)


def test_advanced_rider_by_its_formula():
    view = view_of(AdvancedRider(), rounds=3)
    first, before, last = view.update_norms
    replay = g * (last / before)
    decay = log(last / first) / 2
    similar = 0.25 / (0.25 + exp(2 * decay * 3))
    phi = np.linalg.norm(replay) * sqrt(400 / (20 + 380 * similar) - 1)
    noise = AdvancedRider().report(view).update - replay
    touched = np.abs(noise) > 1e-7
    assert touched.mean() == pytest.approx(0.7, abs=0.02)
    assert noise[touched].std() == pytest.approx(phi / (0.7 * SIZE), rel=0.04)


def test_advanced_rider_with_one_update_takes_it_as_it_is():
    one = history(1)[0]
    noise = reported(AdvancedRider(), rounds=1) - one
    phi = np.linalg.norm(one) * sqrt(400 / (20 + 380 * 0.2) - 1)
    assert np.abs(noise).max() < 6 * phi / (0.7 * SIZE)
    assert noise.any()


@pytest.mark.parametrize("decay", [0.5, 1, 2])
def test_disguised_shrinks_with_the_rounds(decay):
    noise = reported(Disguised(factor=3, decay=decay))
    assert noise.std() == pytest.approx(3 * np.abs(g).mean() * 4**-decay, rel=0.03)


def test_sign_mimic_has_the_sizes_and_half_the_signs():
    update = reported(SignMimic())
    np.testing.assert_array_equal(np.abs(update), np.abs(g))
    assert np.mean(np.sign(update) == np.sign(g)) == pytest.approx(0.5, abs=0.02)


def test_uniform_model_fills_a_range_that_fits_the_model():
    sent = reported(UniformModel(scale=2)) + model
    bound = 2 * sqrt(3) * np.sqrt(np.mean(model.astype(float) ** 2))
    assert np.abs(sent).max() == pytest.approx(bound, rel=1e-3)
    assert sent.std() == pytest.approx(bound / sqrt(3), rel=0.03)


def test_colluders_report_one_vector_around_the_replay():
    alone = Colluders(sd=0.02)
    first, second = (reported(alone, client=client) for client in (0, 1))
    np.testing.assert_array_equal(first, second)
    assert first.std() == pytest.approx(0.02, rel=0.03)
    around = reported(Colluders(sd=0.02, replay=0.5))
    np.testing.assert_allclose(around, first + 0.5 * g, atol=1e-7)
    own = reported(Colluders(sd=0.02, own=0.01), client=1) - second
    assert own.std() == pytest.approx(0.01, rel=0.03)


def test_copies_report_one_members_work_and_only_that_member_exactly():
    np.testing.assert_array_equal(reported(Copies()), work)
    noise = reported(Copies(noise=0.01), client=1, trained=-work) - work
    assert noise.std() == pytest.approx(0.01 * np.sqrt(np.mean(work**2)), rel=0.03)


def test_sign_flip_and_boost_are_factors():
    np.testing.assert_array_equal(reported(SignFlip()), -work)
    np.testing.assert_array_equal(reported(Boost(factor=8)), 8 * work)


def test_label_flip_mirrors_a_share_of_the_labels_and_no_input():
    data = samples()
    flipped = LabelFlip().local_data(data, stream(0))
    np.testing.assert_array_equal(flipped.y, 9 - data.y)
    np.testing.assert_array_equal(flipped.x, data.x)
    some = LabelFlip(share=0.25).local_data(data, stream(0))
    assert (some.y != data.y).sum() == 50
    with pytest.raises(SettingError, match="greater than every label, got 5 and label 9"):
        LabelFlip(classes=5).local_data(data, stream(0))


def test_loud_flip_is_a_label_flip_times_two():
    flipped = LoudFlip().local_data(samples(), stream(0))
    np.testing.assert_array_equal(flipped.y, 9 - samples().y)
    np.testing.assert_array_equal(reported(LoudFlip()), 2 * work)


def test_lazy_replays_on_top_of_a_few_samples():
    few = Lazy(samples=7).local_data(samples(), stream(0))
    assert len(few.y) == len(few.x) == 7
    np.testing.assert_array_equal(few.x[:, 0, 0, 0], few.y)
    np.testing.assert_array_equal(reported(Lazy()), g + work)
    np.testing.assert_array_equal(reported(Lazy(), rounds=0), work)


def test_fake_data_takes_the_shape_of_the_data_and_nothing_else():
    data = samples()
    other = LocalData(data.x[::-1] * 2 + 1, data.y[::-1].copy())
    fake, again = (FakeData(sd=2).local_data(d, stream(0)) for d in (data, other))
    np.testing.assert_array_equal(fake.x, again.x)
    np.testing.assert_array_equal(fake.y, again.y)
    assert fake.x.shape == data.x.shape
    assert fake.x.dtype == np.float32
    assert fake.x.std() == pytest.approx(2, rel=0.1)
    assert set(fake.y) == set(range(10))


def test_informed_learns_a_rule_from_the_past_and_hides_it_from_linear_regression():
    """Updates that follow a rule that is not linear are forecast; what is linear is left out."""
    rng = stream(3)
    model, *moved = rng.standard_normal((3, 100_000))
    older, oldest = 0.01 * np.array(moved)
    scale = np.abs(older).mean()

    def rule(a, b):
        return 0.5 * a + np.abs(a) * b / scale

    last = rule(older, oldest)
    hidden = (np.abs(last) - np.abs(last).mean()) * older  # what regression on both leaves
    seen = tuple(v.astype(np.float32) for v in (last, older, oldest))
    view = view_of(Informed())
    public = {"global_updates": seen, "global_model": model.astype(np.float32)}
    view = type(view)(**{**vars(view), **public})
    report = Informed(size=2.0, replay=0.0, own=0.0).report(view).update.astype(float)
    assert np.linalg.norm(report) == pytest.approx(2 * np.linalg.norm(last), rel=1e-4)
    assert np.corrcoef(report, hidden)[0, 1] > 0.2  # it knows signs only, of one round
    for known in (*seen, view.global_model):
        assert abs(np.corrcoef(report, known)[0, 1]) < 1e-3
    mixed = Informed(size=2.0, replay=1.5, own=0.0).report(view).update
    np.testing.assert_allclose(mixed, report + 1.5 * last, atol=1e-6)
    blurred = Informed(size=2.0, replay=0.0, own=0.5).report(view).update - report
    assert np.linalg.norm(blurred) == pytest.approx(np.linalg.norm(last), rel=0.03)


def test_informed_replays_until_it_has_something_to_learn_from():
    for rounds in (1, 2):
        np.testing.assert_array_equal(reported(Informed(), rounds=rounds), history(rounds)[0])


def test_informed_survives_a_federation_that_stands_still():
    view = view_of(Informed())
    still = np.zeros(SIZE, np.float32)
    view = type(view)(**{**vars(view), "global_updates": (still,) * 3, "global_model": still})
    assert not Informed().report(view).update.any()


@pytest.mark.parametrize("kind", REPLAYS, ids=lambda kind: kind.name)
def test_before_there_is_an_update_it_counts_as_zero(kind):
    settings = {"sd": 0.0} if kind in (Adaptive, AdvancedDelta) else {}
    assert not reported(kind(**settings), rounds=0).any()


@pytest.mark.parametrize(
    "kind", [kind for kind in BEHAVIOURS.values() if not kind.trains], ids=lambda kind: kind.name
)
def test_riders_never_look_at_private_data(kind):
    """Their report is the same whatever training would have given."""
    view = view_of(kind())
    peeping = type(view)(
        **{**vars(view), "honest_update": work, "group_update": work, "rng": stream(1, "client", 0)}
    )
    plain = kind().report(view_of(kind())).update
    np.testing.assert_array_equal(kind().report(peeping).update, plain)


@pytest.mark.parametrize("kind", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_every_file_names_its_source_or_its_setting_in_the_paper(kind):
    text = __import__(kind.__module__, fromlist=["_"]).__doc__
    assert kind.__doc__
    assert text
    if kind.name not in {"honest", "inflated-size", "noise", "random-model", "random-update"}:
        assert "Source: " in text


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Adaptive, {"sd": -1}, "sd must be at least 0, got -1"),
        (AdvancedDelta, {"sd": -1}, "sd must be at least 0, got -1"),
        (AdvancedRider, {"share": 0}, "share must be greater than 0, got 0"),
        (AdvancedRider, {"similarity": 0}, "similarity must be greater than 0, got 0"),
        (Averaged, {"rounds": 0}, "rounds must be at least 1, got 0"),
        (Boost, {"factor": 0}, "factor must be greater than 0, got 0"),
        (Colluders, {"own": -1}, "own must be at least 0, got -1"),
        (Copies, {"noise": -1}, "noise must be at least 0, got -1"),
        (Disguised, {"decay": -1}, "decay must be at least 0, got -1"),
        (FakeData, {"classes": 1}, "classes must be at least 2, got 1"),
        (Informed, {"size": -1}, "size must be at least 0, got -1"),
        (LabelFlip, {"share": 2}, "share must be at most 1, got 2"),
        (Lazy, {"samples": 0}, "samples must be at least 1, got 0"),
        (LoudFlip, {"factor": 0}, "factor must be greater than 0, got 0"),
        (Mixed, {"own": 2}, "own must be at most 1, got 2"),
        (Older, {"rounds": 0}, "rounds must be at least 1, got 0"),
        (Renaming, {"rounds": 0}, "rounds must be at least 1, got 0"),
        (Rotating, {"rounds": 0}, "rounds must be at least 1, got 0"),
        (SignFlip, {"factor": 0}, "factor must be greater than 0, got 0"),
        (UniformModel, {"scale": -1}, "scale must be at least 0, got -1"),
    ],
)
def test_bad_settings_name_the_rule_and_the_value(kind, settings, message):
    with pytest.raises(SettingError, match=message):
        kind(**settings)
