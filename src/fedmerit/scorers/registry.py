"""Scorers by name, and the one function most people need.

===============  ================================================================================
name             what is scored
===============  ================================================================================
``ca``           correlated agreement, one score matrix for all pairs (published)
``coast``        baseline: earlier reports by where the model goes now (after CoAst)
``conditional``  agreement given public information: evidence of private work
``cosine``       baseline: cosine with the mean update (CGSV)
``exact``        pairwise correlated agreement in expectation
``foolsgold``    baseline: being unlike everybody else (FoolsGold, one round)
``krum``         baseline: minus the distance to the nearest others (Krum)
``merit``        the default: evidence of private work, times its amount, times its orientation
``norm``         baseline: length of the update
``pca``          pairwise correlated agreement with its dice (published)
``reputation``   baseline: share of all agreement with the reputable so far (after RFFL)
===============  ================================================================================

Scores that need a utility, such as Shapley values of accuracy, are functions in `shapley`.
"""

import inspect
from collections.abc import Callable

from numpy.typing import ArrayLike

from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.quantisers import make_quantiser
from fedmerit.rng import RandomSource, as_generator
from fedmerit.scorers.baselines import (
    CosineToMean,
    CrossRound,
    FoolsGold,
    KrumScore,
    Reputation,
    UpdateNorm,
)
from fedmerit.scorers.ca import CorrelatedAgreement
from fedmerit.scorers.conditional import ConditionalPCA
from fedmerit.scorers.exact import ExactPCA
from fedmerit.scorers.merit import Merit
from fedmerit.scorers.published import PublishedPCA
from fedmerit.types import Contributions, Quantiser, Scorer, Signals, needs_of
from fedmerit.validation import check_round, read_settings

SCORERS: dict[str, Callable[..., Scorer]] = {
    "ca": CorrelatedAgreement,
    "coast": CrossRound,
    "conditional": ConditionalPCA,
    "cosine": CosineToMean,
    "exact": ExactPCA,
    "foolsgold": FoolsGold,
    "krum": KrumScore,
    "merit": Merit,
    "norm": UpdateNorm,
    "pca": PublishedPCA,
    "reputation": Reputation,
}


def make_scorer(
    method: str,
    quantiser: str | Quantiser | None = None,
    levels: int | None = None,
    **settings: object,
) -> Scorer:
    """Build the scorer called `method`; a setting it does not have is an error.

    Settings may stand behind the name.

    Examples
    --------
    >>> make_scorer("merit:one_kind=true").one_kind
    True
    """
    name, told = read_settings("method", method)
    if name not in SCORERS:
        raise UnknownNameError.of("method", name, SCORERS)
    if twice := sorted(set(told) & set(settings)):
        raise SettingError(f"a setting of a method must be given once, got {twice[0]} twice")
    quantiser, levels = told.pop("quantiser", quantiser), told.pop("levels", levels)
    settings |= told
    if quantiser is not None or levels is not None:
        settings["quantiser"] = make_quantiser(quantiser or "quantile", levels)
    known = inspect.signature(SCORERS[name]).parameters
    if unknown := sorted(set(settings) - set(known)):
        taken = ", ".join(known) or "nothing"
        raise SettingError(f"method {name!r} does not take {', '.join(unknown)}, but {taken}")
    for setting, value in told.items():
        if isinstance(value, str):
            raise SettingError(f"{setting} of a method cannot be given in words, got {value!r}")
    return SCORERS[name](**settings)


def score(
    updates: ArrayLike | Signals,
    *,
    method: str | Scorer = "merit",
    public: ArrayLike | None = None,
    layers: ArrayLike | None = None,
    previous: ArrayLike | None = None,
    testimony: ArrayLike | None = None,
    trust: ArrayLike | None = None,
    rounds: ArrayLike | None = None,
    rng: RandomSource = None,
    quantiser: str | Quantiser | None = None,
    levels: int | None = None,
    **settings: object,
) -> Contributions:
    """Score the clients of one round, without any data but their updates.

    Parameters
    ----------
    updates : (k, d) float array, or Signals
        One update (local model minus global model, flattened) per client.
    method : str or Scorer
        ``"merit"`` (default), ``"conditional"`` (evidence of private work), ``"exact"``, ``"pca"``
        (as published), ``"ca"``, a baseline (``"coast"``, ``"cosine"``, ``"foolsgold"``,
        ``"krum"``, ``"norm"``, ``"reputation"``), or a scorer of your own. Settings may stand
        behind a name: ``"merit:one_kind=true"``.
    public : (d,) or (r, d) array, optional
        What every client knows: the last global update, the current global model, ...
    layers : (d,) integers, optional
        The layer of each parameter.
    previous : (k, d) or (k, n, d) array, optional
        Each client's own earlier reports (zeros: none yet); ``"merit"`` takes them off.
    testimony : (k, d) array, optional
        What each client has told before: ``Contributions.testimony`` of its last round, zeros for
        a newcomer. Where it is given, the result has the next one.
    trust : (k,) array, optional
        Sum of ``Contributions.work`` over earlier rounds.
    rounds : (k,) integers, optional
        How many these were. With both, ``"merit"`` knows which differences last.
    rng : None, int or Generator
        ``None`` draws fresh entropy, so that clients cannot foresee halves and peers.
    quantiser : str or Quantiser
        ``"quantile"`` (default), ``"uniform"``, ``"cpsgd"``; `levels` (default 8) goes with a name.
        For ``"exact"``, ``"pca"`` and ``"ca"``.
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
    generator = as_generator(rng)
    if isinstance(method, str):
        method = make_scorer(method, quantiser, levels, **settings)
    elif settings or quantiser is not None or levels is not None:
        raise SettingError("settings go with a method's name, not with a scorer that has its own")
    if not isinstance(method, Scorer):
        raise SettingError(f"method must be a name or a Scorer, got {method!r}")
    # Scorers that sample check the values they draw; `aggregate` checks all that it uses.
    whole = needs_of(method).sample is None
    inputs = check_round(
        updates, public, layers, previous, trust, rounds, testimony=testimony, finite=whole
    )
    return method.score(inputs, generator)
