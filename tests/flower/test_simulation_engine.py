"""The example app in Flower's own simulation engine, with Ray."""

from pathlib import Path

import pytest

from fedmerit.flower.demo import follow
from fedmerit.flower.deployment import Deployment, example_app
from fedmerit.ledger import Ledger

pytestmark = pytest.mark.federation

NODES, ROUNDS = 6, 3


def test_the_example_app_runs_in_a_simulation_with_ray(tmp_path):
    ledger = tmp_path / "run.ledger"
    settings = {
        "dataset": "digits",
        "num-server-rounds": ROUNDS,
        "min-nodes": NODES,
        "ledger": str(ledger),
        "behaviours": "2=stale, 4=nan",
    }
    with Deployment(tmp_path / "federation", simulation=True) as deployment:
        federation = {"num-supernodes": NODES, "client-resources-num-cpus": 1}
        run = deployment.submit(example_app(), settings, federation)
        records = list(follow(deployment, run, ledger, ROUNDS, seconds=300))
    with Ledger.open(ledger, read_only=True) as opened:
        assert opened.verify().ok
    last = records[-1]
    assert [refusal.reason for refusal in last.rejected] == [
        "layers.0.weight must be finite, got nan at 0"
    ]
    flagged = [client for client in last.clients if client.flagged]
    assert [client.weight for client in flagged] == [0.0]
    assert "explained by public information" in flagged[0].reason
    assert len(last.clients) == NODES - 1
    assert last.metrics["accuracy"] > 0.8


def test_adapters_of_peft_are_trained_and_judged_by_flwr_run(tmp_path):
    """The example as its page starts it: six nodes, of which the third trains nothing."""
    pytest.importorskip("peft")
    ledger = tmp_path / "run.ledger"
    app = Path(__file__).parents[2] / "examples" / "flower-lora"
    with Deployment(tmp_path / "federation", simulation=True) as deployment:
        federation = {"num-supernodes": NODES, "client-resources-num-cpus": 1}
        run = deployment.submit(app, {"ledger": str(ledger)}, federation)
        records = list(follow(deployment, run, ledger, ROUNDS, seconds=300))
    assert [record.round for record in records] == [1, 2, 3]
    for record in records:
        flagged = [client for client in record.clients if client.flagged]
        assert len(record.clients) == NODES
        assert len(flagged) == 1
        assert flagged[0].weight == 0
    assert records[-1].metrics["loss"] < records[0].metrics["loss"]
