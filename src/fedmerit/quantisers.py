"""Quantisers: from float updates (k x d) to one-byte signals.

=============  ==========================================================================
``quantile``   per-client equal-frequency bins; no range to tune, blind to scale; default
``uniform``    equal-width bins over [-clip, clip]
``cpsgd``      the paper's: levels over [-clip, clip] with unbiased stochastic rounding
=============  ==========================================================================

Only levels that stand for values can be turned back into floats: `CpSGD` and `UniformBins` can.
"""

from dataclasses import dataclass
from math import comb
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.kernels.levels import (
    add_from_table,
    bin_uniformly,
    bins_of_equal_counts,
    round_stochastically,
)
from fedmerit.rng import seeds
from fedmerit.types import FloatArray, Quantiser, Signals
from fedmerit.validation import MAX_LEVELS, check_count, check_levels, check_number

DEFAULT_LEVELS = 8
DEFAULT_CLIP = 0.1


@runtime_checkable
class Dequantiser(Quantiser, Protocol):
    """A quantiser whose levels stand for values."""

    def dequantise(self, signals: Signals) -> NDArray[np.float32]:
        """Return the values that the levels stand for."""
        ...


@dataclass(frozen=True)
class QuantileBins:
    """Per-client bins of equal frequency; equal values always share one bin.

    Level a holds the values from the ``a / levels`` quantile up to the next one. The order of the
    values is all that counts, so the signals do not fade as updates shrink over the rounds.
    """

    levels: int = DEFAULT_LEVELS

    def __post_init__(self) -> None:
        check_levels(self.levels)

    @property
    def signal_levels(self) -> int:
        """How many levels the signals have."""
        return self.levels

    def quantise(self, updates: FloatArray, rng: np.random.Generator) -> Signals:  # noqa: ARG002
        """Quantise checked (k, d) updates; draws nothing."""
        return Signals(bins_of_equal_counts(updates, self.levels), self.levels)


@dataclass(frozen=True)
class UniformBins:
    """Equal-width bins over [-clip, clip]; values outside fall into the end bins."""

    levels: int = DEFAULT_LEVELS
    clip: float = DEFAULT_CLIP

    def __post_init__(self) -> None:
        check_levels(self.levels)
        check_number("clip", self.clip, above=0)

    @property
    def signal_levels(self) -> int:
        """How many levels the signals have."""
        return self.levels

    def quantise(self, updates: FloatArray, rng: np.random.Generator) -> Signals:  # noqa: ARG002
        """Quantise checked (k, d) updates; draws nothing."""
        signals = np.empty(updates.shape, dtype=np.uint8)
        bin_uniformly(updates, self.levels, float(self.clip), signals)
        return Signals(signals, self.levels)

    def dequantise(self, signals: Signals) -> NDArray[np.float32]:
        """Return the middle of each bin."""
        width = 2 * self.clip / self.levels
        values = -self.clip + (np.arange(self.levels) + 0.5) * width
        return values.astype(np.float32)[signals.values]


@dataclass(frozen=True)
class CpSGD:
    """The paper's quantiser: stochastic rounding to levels over [-clip, clip].

    Level r stands for ``-clip + 2 clip r / (levels - 1)``; a value is rounded to one of its two
    neighbours such that the expectation is the (clipped) value itself. With ``binomial_trials``
    N > 0 a Binomial(N, probability) draw is added to the level for privacy (Agarwal et al.,
    "cpSGD", NeurIPS 2018): signals then take ``levels + N`` values, and `dequantise` takes the
    noise's mean off again.
    """

    levels: int = DEFAULT_LEVELS
    clip: float = DEFAULT_CLIP
    binomial_trials: int = 0
    probability: float = 0.5

    def __post_init__(self) -> None:
        check_levels(self.levels)
        check_number("clip", self.clip, above=0)
        check_number("probability", self.probability, above=0, below=1)
        check_count("binomial_trials", self.binomial_trials, least=0)
        if self.signal_levels > MAX_LEVELS:
            raise SettingError(
                f"levels + binomial_trials must be at most {MAX_LEVELS}, got {self.signal_levels}"
            )

    @property
    def signal_levels(self) -> int:
        """How many levels the signals have, noise included."""
        return self.levels + self.binomial_trials

    def quantise(self, updates: FloatArray, rng: np.random.Generator) -> Signals:
        """Quantise checked (k, d) updates, each client with a random stream of its own."""
        clients = updates.shape[0]
        signals = np.empty(updates.shape, dtype=np.uint8)
        round_stochastically(updates, self.levels, float(self.clip), seeds(rng, clients), signals)
        if self.binomial_trials:
            add_from_table(signals, self._cumulative(), seeds(rng, clients))
        return Signals(signals, self.signal_levels)

    def dequantise(self, signals: Signals) -> NDArray[np.float32]:
        """Return the unbiased estimate of the clipped values."""
        step = 2 * self.clip / (self.levels - 1)
        noise = self.binomial_trials * self.probability
        values = -self.clip + (np.arange(self.signal_levels) - noise) * step
        return values.astype(np.float32)[signals.values]

    def _cumulative(self) -> NDArray[np.float64]:
        """Return P(draw <= n) for n below the number of trials."""
        n, p = self.binomial_trials, self.probability
        mass = [comb(n, r) * p**r * (1 - p) ** (n - r) for r in range(n)]
        return np.cumsum(np.asarray(mass, dtype=np.float64))


QUANTISERS: dict[str, type[QuantileBins] | type[UniformBins] | type[CpSGD]] = {
    "quantile": QuantileBins,
    "uniform": UniformBins,
    "cpsgd": CpSGD,
}


def make_quantiser(quantiser: str | Quantiser, levels: int | None = None) -> Quantiser:
    """Return a quantiser from its name (with `levels`) or as it is."""
    if isinstance(quantiser, str):
        if quantiser not in QUANTISERS:
            raise UnknownNameError.of("quantiser", quantiser, QUANTISERS)
        return QUANTISERS[quantiser](levels=DEFAULT_LEVELS if levels is None else levels)
    if not isinstance(quantiser, Quantiser):
        raise SettingError(f"quantiser must be a name or a Quantiser, got {quantiser!r}")
    if levels is not None and levels != quantiser.signal_levels:
        raise SettingError(
            f"levels must be left out or match the quantiser's {quantiser.signal_levels}, "
            f"got {levels}"
        )
    return quantiser


def to_signals(
    updates: FloatArray | Signals, quantiser: Quantiser, rng: np.random.Generator
) -> Signals:
    """Quantise float updates; signals pass through unchanged."""
    return updates if isinstance(updates, Signals) else quantiser.quantise(updates, rng)
