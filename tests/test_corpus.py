"""Inputs on which a parser once failed: it must refuse them with one of fedmerit's errors."""

import random
from pathlib import Path

import pytest

from checks.fuzz.__main__ import mutate
from checks.fuzz.targets import TARGETS, run, seeds

CORPUS = Path(__file__).parent / "corpus"
FOUND = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once_stays_found(path):
    run(path.parent.name, path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_mutations_of_valid_inputs(name):
    rng = random.Random(1)
    for content in seeds(name):
        run(name, content)
        for _ in range(30):
            run(name, mutate(content, rng))
