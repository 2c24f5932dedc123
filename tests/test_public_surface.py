"""What a user can import is a promise; importing must be cheap."""

import os
import subprocess
import sys
import types

import pytest

import fedmerit


def run_python(code, **environment):
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_everything_public_is_listed_and_sorted():
    public = {
        name
        for name, value in vars(fedmerit).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public | {"__version__"} == set(fedmerit.__all__)
    constants = [name for name in fedmerit.__all__ if name.isupper()]
    classes = [n for n in fedmerit.__all__ if n[0].isupper() and not n.isupper()]
    rest = [name for name in fedmerit.__all__ if name not in {*constants, *classes}]
    assert fedmerit.__all__ == sorted(constants) + sorted(classes) + sorted(rest)


def test_every_error_that_is_raised_can_be_caught_by_its_public_name():
    defined = {
        name
        for name, value in vars(fedmerit.errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert defined <= set(fedmerit.__all__)


def test_importing_compiles_nothing_and_stays_light():
    code = """
import sys, fedmerit, fedmerit.cli
from numba.core.registry import CPUDispatcher
kernels = [v for n, m in list(sys.modules.items()) if n.startswith("fedmerit.kernels")
           for v in vars(m).values() if isinstance(v, CPUDispatcher)]
print(len(kernels) > 10, sum(len(kernel.signatures) for kernel in kernels))
print(sorted({"torch", "typer", "rich", "matplotlib", "flwr"} & set(sys.modules)))
"""
    assert run_python(code) == "True 0\n[]\n"


@pytest.mark.slow
def test_kernels_are_cached_on_disk(tmp_path):
    code = """
import numpy as np
from fedmerit.kernels.bits import random_word
random_word(np.uint64(1), 2)
stats = random_word.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""
    assert run_python(code, NUMBA_CACHE_DIR=str(tmp_path)) == "0 1\n"
    assert run_python(code, NUMBA_CACHE_DIR=str(tmp_path)) == "1 0\n"


@pytest.mark.slow
def test_results_are_the_same_bits_for_one_and_two_threads():
    code = """
import hashlib, numpy as np, fedmerit
rng = np.random.default_rng(5)
updates = (rng.normal(size=20_000) + rng.normal(size=(7, 20_000))).astype(np.float32)
digest = hashlib.sha256()
for method in fedmerit.SCORERS:
    result = fedmerit.score(updates, method=method, public=updates[0] ** 3, rng=1)
    for part in (result, result.pairs, result.evidence):
        for value in () if part is None else vars(part).values():
            digest.update(value.tobytes() if isinstance(value, np.ndarray) else b"")
digest.update(fedmerit.score(updates, method="exact", levels=40, rng=1).pairwise.tobytes())
cpsgd = fedmerit.CpSGD(8, 1.0, binomial_trials=3)
digest.update(cpsgd.quantise(updates, np.random.default_rng(1)).values.tobytes())
digest.update(fedmerit.UniformBins(8, 1.0).quantise(updates, rng).values.tobytes())
for rule in fedmerit.AGGREGATORS:
    digest.update(fedmerit.aggregate(updates, rule=rule).tobytes())
digest.update(fedmerit.aggregate(updates, range(7), rule="median").tobytes())
print(digest.hexdigest())
"""
    digests = {run_python(code, NUMBA_NUM_THREADS=threads) for threads in ("1", "2")}
    assert len(digests) == 1
