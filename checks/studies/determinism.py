"""Digests of what must be the same bytes everywhere: ``python -m checks.studies.determinism``.

Prints one line per part. Compare over thread counts (NUMBA_NUM_THREADS), versions of Python, and
machines; docs/results/determinism.md has what was compared.
"""

import hashlib
import platform
import tempfile
from pathlib import Path

import numba
import numpy as np

import fedmerit
from fedmerit.kernels.threads import threads
from fedmerit.ledger import Ledger, RunRecorder

CLIENTS, PARAMETERS, SEED = 12, 3000, 0


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def scores() -> dict[str, str]:
    rng = np.random.default_rng(SEED)
    truth = rng.integers(-8, 9, size=PARAMETERS)
    updates = (truth + rng.integers(-8, 9, size=(CLIENTS, PARAMETERS))).astype(np.float32)
    public = truth[None].astype(np.float32)
    found = {}
    for method in sorted(fedmerit.SCORERS):
        result = fedmerit.score(updates, method=method, public=public, rng=SEED)
        found[f"score {method}"] = digest(result.scores.tobytes(), result.flagged.tobytes())
    for rule in sorted(fedmerit.AGGREGATORS):
        found[f"aggregate {rule}"] = digest(fedmerit.aggregate(updates, rule=rule).tobytes())
    return found


def simulated() -> dict[str, str]:
    from fedmerit.behaviours import Assignment
    from fedmerit.simulation.config import FederationConfig, ModelChoice
    from fedmerit.simulation.data.datasets import load
    from fedmerit.simulation.federation import Federation
    from fedmerit.simulation.run import run
    from fedmerit.simulation.training.settings import LocalTraining

    config = FederationConfig(
        users=8,
        per_round=6,
        rounds=3,
        seed=SEED,
        model=ModelChoice(hidden=8),
        training=LocalTraining(epochs=1),
        behaviours=Assignment.parse("25% random-update"),
    )
    federation = Federation(config, load("digits"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Ledger.open(folder / "a.ledger", clock=lambda: 0.0, draw=bytes) as ledger:
            keep = RunRecorder(ledger, {}, "1", fingerprint="same", resume=False)
            run(federation, folder=folder / "run", keep=keep)
            head = str(ledger.head)
        results = [(folder / "run" / file).read_bytes() for file in ("rounds.csv", "clients.csv")]
    return {"simulate": digest(*results), "ledger": head[:16]}


def main() -> None:
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, numba {numba.__version__}, "
        f"{threads()} threads"
    )
    for name, value in {**scores(), **simulated()}.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
