"""A job in FLARE's simulator, from the configuration in the documentation."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'fedmerit[nvflare]'")

from fedmerit.ledger import Ledger

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
HONEST = ["ann", "bea", "cem", "dan"]
ROUNDS = 2


def write_job(folder, ledger):
    page = (HERE.parent.parent / "docs" / "nvflare.md").read_text(encoding="utf-8")
    server = json.loads(re.search(r"^```json\n(.*?)^```", page, re.M | re.S)[1])
    (workflow,) = server["workflows"]
    workflow["args"]["num_rounds"] = ROUNDS
    for component in server["components"]:
        if component["id"] == "aggregator":
            component["args"] |= {"ledger": str(ledger), "seed": 1}
        if component["id"] == "persistor":
            start = np.random.default_rng(0).normal(size=(20, 20))
            component["args"] = {"model": start.tolist()}
    train = {"tasks": ["train"], "executor": {"path": "trainer.Trainer", "args": {}}}
    client = {"format_version": 2, "executors": [train], "components": []}
    (folder / "app" / "config").mkdir(parents=True)
    (folder / "app" / "custom").mkdir()
    shutil.copy(HERE / "trainer.py", folder / "app" / "custom")
    for name, content in {
        "meta.json": {"name": "merit", "deploy_map": {"app": ["@ALL"]}, "min_clients": 5},
        "app/config/config_fed_server.json": server,
        "app/config/config_fed_client.json": client,
    }.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def test_a_job_runs_with_the_documented_configuration(tmp_path):
    ledger = tmp_path / "run.ledger"
    write_job(tmp_path / "job", ledger)
    names = [*HONEST, "nan", "raises"]
    command = [sys.executable, "-m", "nvflare.private.fed.app.simulator.simulator"]
    command += [str(tmp_path / "job"), "-w", str(tmp_path / "work"), "-c", ",".join(names)]
    run = subprocess.run(
        [*command, "-t", "2"], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    with Ledger.open(ledger) as opened:
        assert opened.verify().ok
        first, second = opened.rounds()
    assert [client.client for client in first.clients] == [*HONEST, "raises"]
    # Clients would answer with an error in the second round, had they been told what was found.
    assert [client.client for client in second.clients] == HONEST
    assert all(client.weight > 0 for client in second.clients)
    reasons = {refusal.client: refusal.reason for refusal in second.rejected}
    assert reasons == {
        "nan": "numpy_key must be finite, got nan at 0",
        "raises": "no result before the end of the round",
    }
    (saved,) = (tmp_path / "work").rglob("server.npy")
    assert np.isfinite(np.load(saved)).all()
