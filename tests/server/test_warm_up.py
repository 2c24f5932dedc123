"""After warming up, a round of any size and form compiles nothing."""

import importlib
import pkgutil

import numpy as np
import pytest
from typer.testing import CliRunner

import fedmerit
import fedmerit.kernels
from fedmerit.cli.app import app
from fedmerit.server.warm_up import KINDS, steps
from tests.conftest import JIT_OFF

pytestmark = pytest.mark.skipif(JIT_OFF, reason="nothing is compiled")


def signatures():
    """For how many types of arguments each kernel is ready, from the disk or newly compiled."""
    names = [m.name for m in pkgutil.walk_packages(fedmerit.kernels.__path__, "fedmerit.kernels.")]
    kernels = [f for name in names for f in vars(importlib.import_module(name)).values()]
    return {
        f"{kernel.py_func.__module__}.{kernel.py_func.__name__}": len(kernel.signatures)
        for kernel in kernels
        if hasattr(kernel, "signatures")
    }


def vector(values):
    return values


def by_name(values):
    half = len(values) // 2
    return {"layer.weight": values[:half].reshape(2, -1), "layer.bias": values[half:]}


def moved(model, step):
    if isinstance(step, dict):
        return {name: model[name] + step[name] for name in step}
    return model + step


def federate(clients, parameters, kind, form, models):
    rng = np.random.default_rng([clients, parameters])
    server = fedmerit.Server(form(np.zeros(parameters, kind)), reward="positive:budget=100")
    last = np.zeros(parameters)
    for _ in range(3):
        news = rng.normal(size=parameters)
        sent = {f"works {n}": news + rng.normal(size=parameters) for n in range(clients)}
        sent |= {"noise": rng.normal(size=parameters), "last": last, "nothing": 0 * news}
        steps_ = {name: form(values.astype(kind)) for name, values in sent.items()}
        sizes = {name: 10 + n for n, name in enumerate(sent)}
        if models:
            server.settle({n: moved(server.model, s) for n, s in steps_.items()}, sizes)
        else:
            server.settle(updates=steps_, sizes=sizes)
        last = news


@pytest.mark.slow
@pytest.mark.parametrize("form", [vector, by_name])
def test_the_default_path_needs_nothing_else(form):
    for step in steps().values():
        step()
    ready = signatures()
    for kind in KINDS:
        for clients, parameters in ((2, 400), (5, 3000), (15, 60_000)):
            for models in (True, False):
                federate(clients, parameters, kind, form, models)
    now = signatures()
    assert {name: now[name] for name in now if now[name] > ready.get(name, 0)} == {}


def test_scoring_a_round_that_one_has_needs_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for step in steps().values():
        step()
    ready = signatures()
    rng = np.random.default_rng(2)
    for kind in KINDS:
        updates = (rng.normal(size=3000) + rng.normal(size=(5, 3000))).astype(kind)
        public = rng.normal(size=3000).astype(kind)
        fedmerit.score(updates, public=public)
        np.savez("updates.npz", **{f"client {n}": row for n, row in enumerate(updates)})
        np.savez("public.npz", public)
        told = CliRunner().invoke(app, ["score", "updates.npz", "--public", "public.npz"])
        assert told.exit_code == 0, told.output
    assert signatures() == ready


def test_all_takes_every_scorer_and_rule():
    assert set(steps()) < set(steps(everything=True))
    for step in steps(everything=True).values():
        step()
    ready = signatures()
    for kind in KINDS:
        updates = np.random.default_rng(1).normal(size=(7, 900)).astype(kind)
        for name in fedmerit.SCORERS:
            fedmerit.score(updates, method=name, rng=0)
        for name in fedmerit.AGGREGATORS:
            fedmerit.aggregate(updates, rule=name)
    assert signatures() == ready
