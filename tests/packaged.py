"""What an installed wheel must do without the source: ``python tests/packaged.py core|flower``."""

import importlib
import importlib.metadata
import sys

import numpy as np

import fedmerit
from fedmerit.errors import MissingExtraError


def core() -> str:
    """Score, weigh and combine a round; extras that are not there are asked for by name."""
    rng = np.random.default_rng(0)
    updates = (rng.normal(size=500) + rng.normal(size=(5, 500))).astype(np.float32)
    result = fedmerit.score(updates, rng=0)
    change = fedmerit.aggregate(updates, fedmerit.gated_weights(result))
    assert change.shape == (500,)
    from fedmerit.ledger import Ledger

    assert Ledger is not None
    try:
        importlib.import_module("fedmerit.flower")
    except MissingExtraError as error:
        return str(error)
    raise SystemExit("fedmerit.flower must need an extra that is not there")


def flower() -> str:
    """Make a strategy."""
    from fedmerit.flower import FedMerit

    return repr(type(FedMerit(fraction_evaluate=0.0)))


if __name__ == "__main__":
    names = {dist.metadata["Name"].lower() for dist in importlib.metadata.distributions()}
    tools = sorted(names & {"pytest", "ruff", "mypy", "hypothesis", "import-linter"})
    assert not tools, f"tools of development were installed: {tools}"
    said = {"core": core, "flower": flower}[sys.argv[1]]()
    print(f"fedmerit {fedmerit.__version__}, {len(names)} distributions: {said}")
