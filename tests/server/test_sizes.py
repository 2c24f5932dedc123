"""Claimed sizes weigh as FedAvg lets them; who has none is told what that means."""

import numpy as np
import pytest

from fedmerit import Flag, Kind, Ledger
from fedmerit.errors import RoundFailedError
from tests.server.federation import CLIENTS, facts, model, new, updates

SIZES = dict(zip(CLIENTS, (10, 50.5, 0.3, 40, 1e-3), strict=True))


def honest(number=1):
    return updates(number, rider=None)


def test_fractions_weigh_as_in_fedavg_to_the_last_bit():
    server, sent = new(), {c: model() + u for c, u in honest().items()}
    arriving = dict(reversed(sent.items()))
    weights = server.settle(arriving, SIZES).weights
    sizes = [SIZES[client] for client in arriving]
    total = sum(sizes)  # as Flower does, in the order of arrival
    assert weights == {c: s / total for c, s in zip(arriving, sizes, strict=True)}
    expected = sum(sent[client] * (SIZES[client] / total) for client in arriving)
    np.testing.assert_array_equal(server.model, expected)


def test_many_fractions_are_added_up_in_the_order_of_arrival():
    names = [f"c{row:02}" for row in range(40)]
    rng = np.random.default_rng(3)
    sizes = dict(zip(rng.permutation(names).tolist(), rng.exponential(size=40), strict=True))
    sent = updates(1, clients=names, rider=None)
    ordered = {name: model() + sent[name] for name in sizes}
    weights = new().settle(ordered, sizes).weights
    total = sum(map(float, sizes.values()))
    assert weights == {name: float(size) / total for name, size in sizes.items()}
    assert total != sum(float(sizes[name]) for name in names), "the order matters here"


@pytest.mark.parametrize("size", [2**63 - 1, 1e18, 50.5, 50.0, 7])
def test_a_ledger_has_sizes_that_are_whole(tmp_path, size):
    with new(ledger=tmp_path / "run.ledger") as server:
        server.settle(updates=honest(), sizes=dict.fromkeys(CLIENTS, 7) | {"bob": size})
        assert server.round == 1
    with Ledger.open(tmp_path / "run.ledger", read_only=True) as ledger:
        assert ledger.verify().ok
        (record,) = ledger.rounds()
    found = {client.client: client.num_examples for client in record.clients}
    kept = int(size) if float(size).is_integer() and float(size) < 2**63 else None
    assert found == dict.fromkeys(CLIENTS, 7) | {"bob": kept}


def test_fractions_count_in_pay():
    reward = "positive:budget=1000,column=worked,size_cap=3"
    sizes = dict.fromkeys(CLIENTS, 20)
    whole = new(reward=reward).settle(updates=honest(), sizes=sizes | {"bob": 50}).payments
    more = new(reward=reward).settle(updates=honest(), sizes=sizes | {"bob": 50.5}).payments
    assert more["bob"] > whole["bob"] > whole["ann"]


def test_if_one_client_claims_no_size_all_weigh_the_same():
    sizes = {client: size for client, size in SIZES.items() if client != "cat"}
    weights = new().settle(updates=honest(), sizes=sizes).weights
    assert weights == dict.fromkeys(CLIENTS, 1 / len(CLIENTS))


# --- every zero weight has a kind


def test_by_size_who_claims_none_has_no_weight_and_is_told_why():
    result = new(weighting="size", reward="positive:budget=1000").settle(
        updates=honest(), sizes=dict.fromkeys(CLIENTS[1:], 10)
    )
    assert result.weights == dict.fromkeys(CLIENTS, 0.25) | {"ann": 0.0}
    assert result.flags["ann"] == Flag(Kind.UNWEIGHED, "it claims no data size")
    assert not result.flags["ann"].accuses
    assert [result.flags[client] for client in CLIENTS[1:]] == [None] * 4


def test_by_size_who_is_accused_is_told_that_first():
    result = new(weighting="size").settle(updates=updates(1), sizes=dict.fromkeys(CLIENTS[:4], 10))
    assert result.flags["eve"].kind is Kind.INDEPENDENT


@pytest.mark.parametrize("weighting", ["score", "gated"])
def test_a_weight_too_small_for_a_number_has_a_kind(weighting):
    result = new(weighting=weighting, alpha=1e9).settle(updates=honest())
    none = [client for client in CLIENTS if result.weights[client] == 0]
    assert none
    assert {result.flags[client].kind for client in none} == {Kind.UNWEIGHED}


@pytest.mark.parametrize("sizes", [None, {}, dict.fromkeys(CLIENTS)])
def test_by_size_without_any_size_the_error_says_what_to_do(sizes):
    server = new(weighting="size")
    before = server.state
    with pytest.raises(RoundFailedError, match=r"needs the data sizes .* give sizes=\.\.\., or"):
        server.settle(updates=honest(), sizes=sizes)
    assert server.state is before
    assert facts(server.settle(updates=honest(), sizes=dict.fromkeys(CLIENTS, 3)))["paid"] == {}
