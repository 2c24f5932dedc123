import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit import CpSGD, QuantileBins, Signals, UniformBins
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.quantisers import QUANTISERS, Dequantiser, make_quantiser, to_signals
from fedmerit.rng import seeds as draw_seeds
from tests import naive
from tests.strategies import float_matrices

pytestmark = pytest.mark.kernel
levels_range = st.integers(2, 9)


@given(st.one_of(float_matrices(width=32), float_matrices(width=64)), levels_range)
def test_quantile_bins_equal_their_twin(updates, levels):
    signals = QuantileBins(levels).quantise(updates, np.random.default_rng(0))
    expected = [naive.quantile_levels(row, levels) for row in updates]
    assert signals.values.tolist() == expected


@given(float_matrices(parameters=st.integers(2, 20)), levels_range)
def test_equal_values_share_a_quantile_bin(updates, levels):
    updates[:, 1] = updates[:, 0]
    values = QuantileBins(levels).quantise(updates, np.random.default_rng(0)).values
    assert (values[:, 0] == values[:, 1]).all()


@pytest.mark.parametrize("levels", [2, 8, 256])
def test_quantile_bins_are_equally_full_without_ties(levels, rng):
    updates = rng.permutation(levels * 5).astype(np.float32)[None, :]
    values = QuantileBins(levels).quantise(updates, rng).values
    assert (np.bincount(values[0], minlength=levels) == 5).all()


@given(float_matrices(), st.integers(-20, 20))
def test_quantile_bins_are_blind_to_scale(updates, exponent):
    updates = np.clip(updates, -1e3, 1e3)
    updates[np.abs(updates) < 1e-3] = 0  # far from where scaling by powers of two could round
    scaled = (updates * np.float32(2.0**exponent)).astype(np.float32)
    rng = np.random.default_rng(0)
    assert (
        QuantileBins().quantise(updates, rng).values == QuantileBins().quantise(scaled, rng).values
    ).all()


@given(float_matrices(), levels_range)
def test_uniform_bins_equal_their_twin(updates, levels):
    signals = UniformBins(levels, clip=2.0).quantise(updates, np.random.default_rng(0))
    assert signals.values.tolist() == [naive.uniform_levels(row, levels, 2.0) for row in updates]


def test_uniform_bins_stand_for_their_middles(rng):
    bins = UniformBins(4, clip=1.0)
    updates = np.array([[-5.0, -0.9, -0.1, 0.1, 0.9, 5.0]])
    back = bins.dequantise(bins.quantise(updates, rng))
    assert back.tolist() == [[-0.75, -0.75, -0.25, 0.25, 0.75, 0.75]]


@given(float_matrices(), levels_range, st.integers(0, 2**32))
def test_stochastic_rounding_equals_its_twin(updates, levels, seed):
    signals = CpSGD(levels, clip=1.5).quantise(updates, np.random.default_rng(seed))
    words = draw_seeds(np.random.default_rng(seed), len(updates))
    expected = [
        naive.stochastic_levels(row, levels, 1.5, int(word))
        for row, word in zip(updates, words, strict=True)
    ]
    assert signals.values.tolist() == expected


@pytest.mark.parametrize("trials", [0, 6])
def test_cpsgd_is_unbiased_inside_the_range(trials, rng):
    quantiser = CpSGD(levels=4, clip=0.1, binomial_trials=trials, probability=0.3)
    truth = np.linspace(-0.1, 0.1, 9)
    draws = 2000
    updates = np.repeat(truth, draws)[None, :]
    back = quantiser.dequantise(quantiser.quantise(updates, rng)).reshape(9, draws)
    step = 0.2 / 3
    # Rounding has a standard deviation of at most half a step; the noise adds n p (1 - p) steps^2.
    deviation = step * np.sqrt(0.25 + trials * 0.3 * 0.7)
    assert np.abs(back.mean(axis=1) - truth).max() < 4.5 * deviation / np.sqrt(draws)


def test_cpsgd_clips_outside_the_range(rng):
    quantiser = CpSGD(levels=3, clip=0.1)
    back = quantiser.dequantise(quantiser.quantise(np.array([[-9.0, 9.0]]), rng))
    assert back.tolist() == [[pytest.approx(-0.1), pytest.approx(0.1)]]


def test_binomial_noise_has_its_distribution(rng):
    quantiser = CpSGD(levels=2, clip=1.0, binomial_trials=2, probability=0.25)
    values = quantiser.quantise(np.full((1, 4000), -1.0), rng).values
    observed = np.bincount(values[0], minlength=4)
    expected = np.array([9, 6, 1]) / 16 * 4000
    assert observed[3] == 0
    chi_squared = ((observed[:3] - expected) ** 2 / expected).sum()
    assert chi_squared < 13.8  # 99.9 % quantile of chi-squared with 2 degrees of freedom


@pytest.mark.parametrize("name", sorted(QUANTISERS))
def test_every_quantiser_keeps_its_contract(name, rng):
    quantiser = make_quantiser(name, 5)
    updates = rng.normal(scale=0.05, size=(3, 50)).astype(np.float32)
    before = updates.copy()
    signals = quantiser.quantise(updates, np.random.default_rng(1))
    again = quantiser.quantise(updates, np.random.default_rng(1))
    assert (updates == before).all()
    assert signals.values.dtype == np.uint8
    assert signals.values.max() < signals.levels == quantiser.signal_levels == 5
    assert (signals.values == again.values).all()
    assert isinstance(quantiser, Dequantiser) == (name != "quantile")
    assert to_signals(signals, quantiser, rng) is signals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QuantileBins(1), "levels must be at least 2, got 1"),
        (lambda: QuantileBins(257), "levels must be at most 256, got 257"),
        (lambda: QuantileBins(2.5), "levels must be an integer, got 2.5"),
        (lambda: QuantileBins(True), "levels must be an integer, got True"),
        (lambda: UniformBins(8, clip=0), "clip must be greater than 0, got 0"),
        (lambda: CpSGD(8, clip=-0.1), "clip must be greater than 0, got -0.1"),
        (lambda: CpSGD(8, clip=float("nan")), "clip must be finite, got nan"),
        (lambda: CpSGD(8, clip="wide"), "clip must be a number, got 'wide'"),
        (lambda: CpSGD(250, binomial_trials=7), "must be at most 256, got 257"),
        (lambda: CpSGD(8, binomial_trials=-1), "binomial_trials must be at least 0, got -1"),
        (lambda: CpSGD(8, probability=1), "probability must be less than 1, got 1"),
        (lambda: make_quantiser(QuantileBins(4), 8), "match the quantiser's 4, got 8"),
        (lambda: make_quantiser(3), "quantiser must be a name or a Quantiser, got 3"),
    ],
)
def test_bad_settings_name_the_rule_and_the_value(make, message):
    with pytest.raises(SettingError, match=message.replace("(", r"\(")):
        make()


def test_unknown_quantiser_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"did you mean 'quantile'\?"):
        make_quantiser("quantil")


def test_signals_may_use_the_whole_byte(rng):
    signals = QuantileBins(256).quantise(rng.normal(size=(1, 5000)), rng)
    assert isinstance(signals, Signals)
    assert signals.values.max() == 255
