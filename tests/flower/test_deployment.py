"""A SuperLink and SuperNodes as processes: faults in a real federation, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from fedmerit.flower.demo import follow
from fedmerit.flower.deployment import Deployment, DeploymentError, example_app
from fedmerit.flower.local import LocalGrid
from fedmerit.ledger import Ledger

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc"),
]

NODES, ROUNDS = 6, 3
STALE, NAN, VICTIM = 3, 4, 5
# Long enough for clients on a busy machine. The killed one is noticed before, by its heartbeat.
TIMEOUT = 240.0
SETTINGS = {"dataset": "digits", "num-server-rounds": ROUNDS, "min-nodes": NODES}


def processes_of(folder):
    """Return who runs with something below `folder` in its environment; zombies have none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"FLWR_HOME={folder}".encode() in environment:
            found.append(int(entry.name))
    return found


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def accuracy_without(absent_from, folder, monkeypatch):
    """The same app and data in this process, where client p is gone from round `absent_from[p]`."""
    monkeypatch.syspath_prepend(example_app())
    from flower_mnist import client_app, server_app

    pyproject = tomllib.loads((example_app() / "pyproject.toml").read_text())
    ledger = folder / "without.ledger"
    config = {**pyproject["tool"]["flwr"]["app"]["config"], **SETTINGS, "ledger": str(ledger)}

    def node(part):
        own = {"partition-id": part, "num-partitions": NODES}
        context = Context(1, 100 + part, own, RecordDict(), config)

        def reply(message):
            if int(message.content["config"]["server-round"]) >= absent_from.get(part, ROUNDS + 1):
                raise ConnectionError("gone")
            return client_app.app(message, context)

        return reply

    grid = LocalGrid({100 + part: node(part) for part in range(NODES)})
    server_app.app(grid, Context(1, 1, {}, RecordDict(), config))
    with Ledger.open(ledger, read_only=True) as opened:
        return [record.metrics["accuracy"] for record in opened.rounds()][-1]


def test_a_federation_survives_a_rider_a_nan_client_and_a_killed_one(tmp_path, monkeypatch):
    ledger, folder = tmp_path / "run.ledger", tmp_path / "federation"
    behaviours = {STALE: "stale", NAN: "nan", VICTIM: "hang:2"}
    with Deployment(folder) as deployment:
        for part in range(NODES):
            behaviour = behaviours.get(part, "honest")
            config = f'partition-id={part} num-partitions={NODES} behaviour="{behaviour}"'
            deployment.start_node(f"node-{part}", config)
        settings = {**SETTINGS, "ledger": str(ledger), "round-timeout": TIMEOUT}
        run = deployment.submit(example_app(), settings)
        records = []
        for record in follow(deployment, run, ledger, ROUNDS, seconds=480):
            records.append(record)
            if record.round == 1:
                log = deployment.log_file(f"node-{VICTIM}")
                wait_for(
                    lambda log=log: "hangs in round 2" in log.read_text(errors="replace"),
                    TIMEOUT,
                    "the victim is in the middle of round 2",
                )
                deployment.kill(f"node-{VICTIM}")
        wait_for(
            lambda: deployment.status(run).startswith("finished"), 60, "the run comes to its end"
        )
        assert deployment.status(run) == "finished:completed"
        assert processes_of(folder)
    assert processes_of(folder) == []

    with Ledger.open(ledger, read_only=True) as opened:
        assert opened.verify().ok
        assert [stored.round for stored in opened.rounds()] == [1, 2, 3]
    rejected = [{r.client: r.reason for r in record.rejected} for record in records]
    (nan,) = rejected[0]
    assert "must be finite, got nan" in rejected[0][nan]
    assert all(nan in round_ for round_ in rejected)
    (killed,) = set(rejected[1]) - {nan}
    assert rejected[1][killed].startswith("error 5: Error: Node Unavailable")
    assert killed in {client.client for client in records[0].clients}
    assert killed not in {client.client for client in records[2].clients}
    flagged = [{c.client for c in record.clients if c.flagged} for record in records]
    assert len(flagged[1]) == 1
    assert flagged[1] == flagged[2]
    assert not flagged[1] & {nan, killed}
    (rider,) = [client for client in records[2].clients if client.flagged]
    assert "explained by public information" in rider.reason
    assert (rider.weight, rider.reward) == (0.0, 0)

    # Half of the data is gone, which costs accuracy by itself. What the faults may not do is cost
    # more. Seeds are drawn anew in every federation: runs differ by up to 5 of 360 test images.
    without = accuracy_without({STALE: 1, NAN: 1, VICTIM: 2}, tmp_path, monkeypatch)
    assert records[-1].metrics["accuracy"] >= without - 0.02


def test_an_interrupted_demo_leaves_no_process_behind(tmp_path):
    logs = tmp_path / "logs"
    # A test run that was started in the background may have been told to ignore interrupts.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from fedmerit.cli import main; main()"
    command = [sys.executable, "-c", code, "flower-demo", "--nodes", "3", "--logs"]
    demo = subprocess.Popen(
        [*command, str(logs), "--ledger", str(tmp_path / "demo.ledger")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
    )
    try:
        wait_for((logs / "node-2.log").is_file, 180, "the SuperNodes are started")
        assert len(processes_of(logs)) >= 4
        os.kill(demo.pid, signal.SIGINT)
        output, _ = demo.communicate(timeout=180)
    finally:
        demo.kill()
        demo.communicate()
    assert demo.returncode == 130, output
    assert processes_of(logs) == []


def test_a_superlink_that_does_not_start_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Deployment, "environment", {**os.environ, "PATH": str(Path(sys.executable).parent)}
    )
    deployment = Deployment(tmp_path / "federation")
    deployment.port = 70_000  # there is no such port
    with pytest.raises(DeploymentError, match="must listen on port 70000"), deployment:
        pass
    assert deployment.processes["superlink"].poll() is not None


def test_the_example_app_is_found_and_complete():
    config = tomllib.loads((example_app() / "pyproject.toml").read_text())
    assert config["tool"]["flwr"]["app"]["components"].keys() == {"serverapp", "clientapp"}
    assert json.dumps(config["tool"]["flwr"]["app"]["config"])
