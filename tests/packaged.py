"""What an installed wheel must do without the source, by what was installed with it.

``python tests/packaged.py core|flower|operator|client``. The operator leaves a statement and its
public key in the current folder; the client, on another machine, has those two and `[ledger]`.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

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


def operator() -> str:
    """Pay three clients into a signed ledger, and write down what one of them is shown."""
    from fedmerit.ledger import SigningKey

    key, rng = SigningKey.generate(), np.random.default_rng(0)
    shared = rng.normal(size=(3, 500))
    rule = "positive:budget=1000"
    with fedmerit.Server(np.zeros(500), ledger="run.ledger", key=key, reward=rule) as server:
        for step in shared:
            server.settle(updates={name: step + rng.normal(size=500) for name in "abc"})
    _fedmerit("statement", "run.ledger", "--client", "b", "--out", "statement.json")
    Path("public-key.txt").write_text(key.public_key.hex())
    return f"{Path('statement.json').stat().st_size} bytes for a client"


def client() -> str:
    """Verify the statement with the key, see that a changed one fails, print it on a page."""
    found = sorted(path.name for path in Path().iterdir())
    assert found == ["public-key.txt", "statement.json"], f"there is more: {found}"
    key = Path("public-key.txt").read_text()
    checked = json.loads(_fedmerit("statement", "verify", "statement.json", "--public-key", key,
                                   "--page", "statement.html", "--json"))  # fmt: skip
    assert checked["ok"], checked
    assert len(checked["rounds"]) == 3, checked
    assert Path("statement.html").stat().st_size > 0
    changed = json.loads(Path("statement.json").read_text())
    changed["client"] = "c"
    Path("changed.json").write_text(json.dumps(changed))
    said = _fedmerit("statement", "verify", "changed.json", "--public-key", key, status=1)
    assert said.startswith("BAD: "), said
    present = [name for name in ("torch", "flwr", "scipy", "matplotlib") if _there(name)]
    assert not present, f"a client needs none of these: {present}"
    return f"{checked['total']} paid in {len(checked['rounds'])} rounds, proven by the key alone"


def _fedmerit(*arguments: str, status: int = 0) -> str:
    command = Path(sys.executable).with_name("fedmerit")
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def _there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


if __name__ == "__main__":
    names = {dist.metadata["Name"].lower() for dist in importlib.metadata.distributions()}
    tools = sorted(names & {"pytest", "ruff", "mypy", "hypothesis", "import-linter"})
    assert not tools, f"tools of development were installed: {tools}"
    parts = {"core": core, "flower": flower, "operator": operator, "client": client}
    said = parts[sys.argv[1]]()
    print(f"fedmerit {fedmerit.__version__}, {len(names)} distributions: {said}")
