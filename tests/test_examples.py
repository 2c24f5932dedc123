"""The examples run as their pages say, offline."""

import random
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedmerit.ledger import Ledger

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_the_plain_loop_finds_who_did_not_work():
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / "plain-loop" / "run.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = dict(line.split(": ", 1) for line in run.stdout.splitlines())
    riders = {"replays", "noise"}
    assert set(lines) == {f"clinic {n}" for n in range(8)} | riders
    weight = {client: float(line.split()[1].rstrip(",")) for client, line in lines.items()}
    flagged = {client: int(line.split()[4]) for client, line in lines.items()}
    for client, times in flagged.items():
        assert times >= 3 if client in riders else times == 0, lines[client]
    honest = min(weight[client] for client in weight.keys() - riders)
    assert max(weight[rider] for rider in riders) < honest / 3


@pytest.fixture
def lora(tmp_path, monkeypatch):
    """The app with adapters: its modules, its settings, clients that work, and how to run it."""
    pytest.importorskip("peft")
    torch = pytest.importorskip("torch")
    from flwr.app import Context, RecordDict

    from fedmerit.flower.local import LocalGrid

    folder = EXAMPLES / "flower-lora"
    monkeypatch.syspath_prepend(folder)
    from flower_lora import client_app, server_app, task

    told = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    config = {**told, "ledger": str(tmp_path / "run.ledger")}

    def context(part):
        return Context(1, part, {"partition-id": part, "num-partitions": 6}, RecordDict(), config)

    def works(part):
        return lambda message: client_app.app(message, context(part))

    def run(nodes):
        server_app.app(LocalGrid(nodes), context(0))

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield SimpleNamespace(server_app=server_app, task=task, config=config, works=works, run=run)
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_adapters_of_peft_are_scored_in_flower(lora):
    """Five clients train, one is idle, one sends noise, one replays, one has another rank."""
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

    models = []

    def sends(change):
        def reply(message):
            model = {name: array.numpy() for name, array in message.content["arrays"].items()}
            models.append(model)
            arrays = {name: Array(values) for name, values in change(model).items()}
            metrics = MetricRecord({"train_loss": 1.0, "num-examples": 48})
            content = {"arrays": ArrayRecord(arrays), "metrics": metrics}
            return Message(RecordDict(content), reply_to=message)

        return reply

    rng = np.random.default_rng(0)

    def noise(model):
        drawn = {name: rng.normal(0, 0.02, values.shape) for name, values in model.items()}
        return {name: (values + drawn[name]).astype("f4") for name, values in model.items()}

    def larger(_model):
        return {
            name: v.numpy() for name, v in lora.task.adapters_of(lora.task.new_model(8)).items()
        }

    nodes = {100 + part: lora.works(part) for part in range(6)}
    nodes |= {200: sends(noise), 201: sends(lambda model: model), 202: sends(larger)}
    lora.run(nodes)
    with Ledger.open(lora.config["ledger"], read_only=True) as ledger:
        rounds = list(ledger.rounds())
    assert len(rounds) == 3
    assert rounds[-1].metrics["loss"] < rounds[0].metrics["loss"]
    for record in rounds:
        flagged = {client.client for client in record.clients if client.flagged}
        assert flagged <= {"102", "200", "201"}  # nobody who trained
        assert {"102", "200"} <= flagged
        (refused,) = record.rejected
        assert refused.client == "202"
        assert "lora_A.weight must have shape (4, 32), got (8, 32)" in refused.reason
        assert refused.reason.endswith("adapters must have the rank of the server's")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_adapters_of_honest_clients_are_combined_as_fedavg_does(lora, monkeypatch):
    """To the last bit: the documented change is all that differs."""
    from flwr.serverapp.strategy import FedAvg

    from fedmerit.flower import FedMerit

    def trained(strategy):
        """The adapters after the last round of the app with this strategy in it."""
        ends = []

        def noting(*arguments, **settings):
            made = strategy(*arguments, **settings)
            start = made.start

            def begin(**given):
                ends.append(start(**given).arrays.to_numpy_ndarrays())

            monkeypatch.setattr(made, "start", begin)
            return made

        monkeypatch.setattr(lora.server_app, "FedMerit", noting)
        random.seed(3)  # in which order Flower asks the nodes
        lora.run({100 + part: lora.works(part) for part in (0, 1, 3, 4, 5)})
        return ends[0]

    plain = trained(lambda ledger, **settings: FedAvg(**settings))  # noqa: ARG005
    ours = trained(FedMerit)
    for mine, theirs in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", ["flower-lora", "flower-mnist"])
def test_flower_has_nothing_to_look_up_for_an_app(name):
    """Flower installs what an app names from an index, on which fedmerit need not be."""
    told = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())
    assert told["project"]["dependencies"] == []


@pytest.mark.slow
def test_the_flare_job_finds_who_did_not_work(tmp_path):
    pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'fedmerit[nvflare]'")
    path = tmp_path / "run.ledger"
    command = [sys.executable, str(EXAMPLES / "flare" / "job.py"), "--rounds", "2"]
    command += ["--ledger", str(path), "--workspace", str(tmp_path / "workspace")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert path.exists(), run.stdout[-3000:] + run.stderr[-3000:]
    with Ledger.open(path, read_only=True) as ledger:
        rounds = list(ledger.rounds())
    assert len(rounds) == 2
    for record in rounds:
        assert len(record.clients) == 8
        assert {c.client for c in record.clients if c.weight == 0} == {"noise", "idle"}
