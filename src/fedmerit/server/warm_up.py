"""Compile ahead what rounds need, so that the first of them does not wait for it."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedmerit.aggregators import AGGREGATORS, aggregate
from fedmerit.comparison import gram
from fedmerit.errors import FedMeritError
from fedmerit.scorers import SCORERS, score
from fedmerit.server.server import Server
from fedmerit.types import FloatArray

KINDS = ("float32", "float64")
_SHAPES = {"a": (60, 40), "b": (2600,)}  # enough parameters to be judged by
_ROUNDS = 3


def steps(everything: bool = False) -> dict[str, Callable[[], None]]:
    """Return what to run, by name: all defaults, for both types of numbers; or all there is."""
    found: dict[str, Callable[[], None]] = {}
    for kind in KINDS:
        found[f"rounds of a server, {kind}"] = partial(_settle, kind)
        found[f"a round that you have, {kind}"] = partial(_score_one, kind)
    for kind in KINDS if everything else ():
        found[f"all scorers, {kind}"] = partial(_score, kind)
        found[f"all rules, {kind}"] = partial(_combine, kind)
    return found


def _settle(kind: str) -> None:
    """Settle some rounds, with clients that do not work in the ways that are looked for."""
    rng = np.random.default_rng(0)
    size = sum(int(np.prod(shape)) for shape in _SHAPES.values())
    cuts = np.cumsum([int(np.prod(shape)) for shape in _SHAPES.values()])[:-1]

    def cut(vector: NDArray[np.generic]) -> dict[str, NDArray[np.generic]]:
        parts = np.split(vector.astype(kind), cuts)
        return {name: p.reshape(_SHAPES[name]) for name, p in zip(_SHAPES, parts, strict=True)}

    for form in (cut, lambda vector: vector.astype(kind)):
        with Server(form(np.zeros(size)), seed=0) as server:
            last = np.zeros(size)
            for _ in range(_ROUNDS):
                news = rng.normal(size=size)
                sent = {f"works {n}": news + rng.normal(size=size) for n in range(6)}
                sent |= {"noise": rng.normal(size=size), "reversed": -news, "replay": last}
                sent |= {"copy": sent["works 0"], "long": 50 * sent["works 1"]}
                server.settle(updates={name: form(vector) for name, vector in sent.items()})
                last = news


def _round(kind: str) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(0)
    updates = rng.normal(size=5000) + rng.normal(size=(8, 5000))
    return updates.astype(kind), rng.normal(size=5000).astype(kind)


def _score_one(kind: str) -> None:
    """Score a round as `fedmerit score` does."""
    updates, public = _round(kind)
    score(updates, public=public, rng=0)
    gram(updates.astype(np.float64))


def _score(kind: str) -> None:
    updates, public = _round(kind)
    for name in SCORERS:
        for known in (None, public):
            try:
                score(updates, method=name, public=known, rng=0)
            except FedMeritError:  # some cannot make use of public information
                continue


def _combine(kind: str) -> None:
    updates, _ = _round(kind)
    for name in AGGREGATORS:
        for weights in (None, np.full(len(updates), 1 / len(updates))):
            try:
                aggregate(updates, weights, rule=name)
            except FedMeritError:  # some take no weights
                continue
