"""Sizes that are fractions: Flower's FedAvg takes them, and so does FedMerit in front of it."""

import pytest
from flwr.serverapp.strategy import FedAvg

from fedmerit.flower import FedMerit
from tests.flower.federation import FIRST, Federation, assert_same, start

FRACTION = FIRST + 3


class Fractions(Federation):
    """One client claims half an example."""

    def reply(self, node, message):
        reply = super().reply(node, message)
        if node == FRACTION:
            reply.content["metrics"]["num-examples"] = 50.5
        return reply


@pytest.mark.parametrize("strategy", [FedMerit, lambda **more: FedMerit(FedAvg(), **more)])
def test_one_fractional_size_leaves_fedavgs_model_as_it_is(strategy):
    records = []
    ours = start(strategy(seed=1, record=records.append), Fractions())
    theirs = start(FedAvg(), Fractions())
    assert_same(ours.arrays, theirs.arrays)
    total = 50.5 + sum(10 + row for row in range(9) if FIRST + row != FRACTION)
    for record in records:
        weights = {int(client.client): client.weight for client in record.clients}
        sizes = {int(client.client): client.num_examples for client in record.clients}
        assert weights[FRACTION] == 50.5 / total
        assert sizes == {FIRST + row: 10 + row for row in range(9)} | {FRACTION: None}
