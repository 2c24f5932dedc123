"""One node trains on flipped labels; the others find it, with the code that clients run anyway.

Flower starts a process for every message to a SuperNode, and this needs a thousand: so the nodes
are those of its simulation engine, behind the same SuperLink.
"""

import pytest

from fedmerit import Kind
from fedmerit.flower.demo import follow
from fedmerit.flower.deployment import Deployment, example_app
from fedmerit.ledger import Ledger

pytestmark = pytest.mark.federation

NODES, ROUNDS, PAIRS = 6, 10, 8
SETTINGS = {
    "dataset": "digits",
    "num-server-rounds": ROUNDS,
    "min-nodes": NODES,
    "panel-pairs": PAIRS,
    "round-timeout": 240.0,
}


def test_who_trains_on_flipped_labels_is_found_by_the_others_and_out_of_the_model(tmp_path):
    ledger = tmp_path / "run.ledger"
    with Deployment(tmp_path / "federation", simulation=True) as deployment:
        federation = {"num-supernodes": NODES, "client-resources-num-cpus": 1}
        settings = {**SETTINGS, "ledger": str(ledger), "behaviours": "2=label-flip"}
        run = deployment.submit(example_app(), settings, federation)
        records = list(follow(deployment, run, ledger, ROUNDS, seconds=600))
    harming = [
        client
        for record in records
        for client in record.clients
        if client.flag is not None and client.flag.kind is Kind.HARMS
    ]
    (found,) = {client.client for client in harming}
    assert {client.weight for client in harming} == {0.0}
    # The values of the whole run say the same: it is worth the least of all.
    total = dict.fromkeys((client.client for client in records[0].clients), 0.0)
    for record in records:
        for client in record.clients:
            total[client.client] += client.value
    assert min(total, key=total.__getitem__) == found
    with Ledger.open(ledger, read_only=True) as opened:
        assert opened.verify().ok
