"""Clients of a real SuperLink judge each other, with the code that they run without a panel."""

import pytest

from fedmerit.flower.demo import follow
from fedmerit.flower.deployment import Deployment, example_app
from fedmerit.ledger import Ledger

pytestmark = pytest.mark.federation

NODES, ROUNDS, PAIRS = 4, 1, 1
SETTINGS = {
    "dataset": "digits",
    "num-server-rounds": ROUNDS,
    "min-nodes": NODES,
    "panel-pairs": PAIRS,
    "round-timeout": 240.0,
}


def test_values_come_from_an_evaluate_phase_that_clients_have_anyway(tmp_path):
    ledger = tmp_path / "run.ledger"
    with Deployment(tmp_path / "federation") as deployment:
        for part in range(NODES):
            config = f'partition-id={part} num-partitions={NODES} behaviour="honest"'
            deployment.start_node(f"node-{part}", config)
        run = deployment.submit(example_app(), {**SETTINGS, "ledger": str(ledger)})
        (record,) = follow(deployment, run, ledger, ROUNDS, seconds=1200)
    # Everybody trained, judged and answered; values add up to what the judges saw gained.
    assert len(record.clients) == NODES
    assert all(client.judgement is not None for client in record.clients)
    inside = sum(client.value for client in record.clients if client.weight)
    assert inside == pytest.approx(record.metrics["panel/gain"])
    with Ledger.open(ledger, read_only=True) as opened:
        assert opened.verify().ok
