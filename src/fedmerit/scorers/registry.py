"""Scorers by name, and the one function most people need."""

from collections.abc import Callable

from numpy.typing import ArrayLike

from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.quantisers import make_quantiser
from fedmerit.rng import RandomSource, as_generator
from fedmerit.scorers.ca import CorrelatedAgreement
from fedmerit.scorers.exact import ExactPCA
from fedmerit.scorers.published import PublishedPCA
from fedmerit.types import Contributions, Quantiser, Scorer, Signals
from fedmerit.validation import check_round

SCORERS: dict[str, Callable[..., Scorer]] = {
    "ca": CorrelatedAgreement,
    "exact": ExactPCA,
    "pca": PublishedPCA,
}


def make_scorer(method: str, **settings: object) -> Scorer:
    """Build the scorer called `method`; a setting it does not have is an error."""
    if method not in SCORERS:
        raise UnknownNameError.of("method", method, SCORERS)
    try:
        return SCORERS[method](**settings)
    except TypeError as error:
        raise SettingError(f"method {method!r} does not take these settings: {error}") from None


def score(
    updates: ArrayLike | Signals,
    *,
    method: str | Scorer = "exact",
    public: ArrayLike | None = None,
    layers: ArrayLike | None = None,
    rng: RandomSource = None,
    quantiser: str | Quantiser = "quantile",
    levels: int | None = None,
    **settings: object,
) -> Contributions:
    """Score the clients of one round, without any data but their updates.

    Parameters
    ----------
    updates : (k, d) float array, or Signals
        One update (local model minus global model, flattened) per client.
    method : str or Scorer
        ``"exact"`` (default), ``"pca"`` (as published), ``"ca"``, or a scorer of your own.
    public : (d,) or (r, d) array, optional
        What every client knows: the last global update, the current global model, ...
    layers : (d,) integers, optional
        The layer of each parameter.
    rng : None, int or Generator
        ``None`` draws fresh entropy, so that clients cannot foresee halves and peers.
    quantiser : str or Quantiser
        ``"quantile"`` (default), ``"uniform"``, ``"cpsgd"``; `levels` (default 8) goes with a name.
    **settings
        Settings of the scorer, such as ``peers=5``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=1000)
    >>> updates = truth + rng.normal(size=(4, 1000))
    >>> updates[3] = rng.normal(size=1000)  # a free rider
    >>> scores = score(updates, method="exact", rng=0).scores
    >>> bool(scores[3] < scores[:3].min() / 2)
    True
    """
    inputs = check_round(updates, public, layers)
    generator = as_generator(rng)
    if isinstance(method, str):
        method = make_scorer(method, quantiser=make_quantiser(quantiser, levels), **settings)
    elif settings:
        raise SettingError(f"settings go with a method's name, got {sorted(settings)}")
    if not isinstance(method, Scorer):
        raise SettingError(f"method must be a name or a Scorer, got {method!r}")
    return method.score(inputs, generator)
