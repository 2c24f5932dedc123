"""Replies of a hostile client to the Flower strategies, and clients that come and go."""

import logging
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from checks.faults.base import Fault, survived
from checks.studies.flower_faults import BAD, CLIENTS, FAULTS, FIRST_NODE, run
from fedmerit.flower import FedMerit
from fedmerit.flower.local import LocalGrid
from fedmerit.types import RoundRecord

_SIZE = (40, 30)
Work = Callable[[int], np.ndarray]


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    expected = "the model stays finite and learns, the honest are used, nobody else is blamed"
    for name, make in FAULTS.items():
        yield survived("conduct", "flower", name, expected, partial(_replied, make))
    for name, nodes, expected, check in (
        ("no client replies", {10: None, 11: None}, "round skipped, model stays", _stays),
        ("one client replies", {10: _work(1), 11: None}, "taken as FedAvg does, unjudged", _alone),
        ("two clients", {10: _work(1), 11: _work(2)}, "both used", _both),
        ("all clients identical", dict.fromkeys(range(10, 15), _work(1)), "finite", _finite),
        ("all updates zero", dict.fromkeys(range(10, 15), _zero), "model stays", _stays),
        ("other shape from round 2 on", {**_honest(4), 14: _reshaping}, "refused then", _reshaped),
        ("every update near 1e38", dict.fromkeys(range(10, 15), _huge), "finite", _finite),
    ):
        yield survived("conduct", "flower", name, expected, partial(_rounds, nodes, check))
    yield survived(
        "conduct", "flower", "clients that come and go", "every round settled by who is there",
        _come_and_go,
    )  # fmt: skip


def _replied(make: Callable[[], object]) -> str:
    records: list[RoundRecord] = []
    strategy = FedMerit(fraction_evaluate=0.0, seed=0, record=records.append)
    outcome = run(strategy, make(), 2)
    assert outcome.error == "", outcome.error
    assert outcome.finite, "the model is not finite"
    assert outcome.accuracy > 0.7, f"accuracy {outcome.accuracy}"
    last = records[-1]
    used = {client.client for client in last.clients}
    assert {str(FIRST_NODE + number) for number in range(CLIENTS - 1)} <= used, "honest not used"
    assert {refusal.client for refusal in last.rejected} <= {str(BAD)}, "somebody else is blamed"
    reasons = [refusal.reason for refusal in last.rejected]
    return f"accuracy {outcome.accuracy:.2f}; " + (reasons[0] if reasons else "reply used")


def _work(seed: int) -> Work:
    def work(number: int) -> np.ndarray:
        shared, own = np.random.default_rng(number), np.random.default_rng([number, seed])
        step = shared.normal(size=_SIZE) + own.normal(size=_SIZE)
        return step.astype(np.float32)

    return work


def _honest(count: int) -> dict[int, Work | None]:
    return {10 + number: _work(number) for number in range(count)}


def _zero(_number: int) -> np.ndarray:
    return np.zeros(_SIZE, dtype=np.float32)


def _huge(number: int) -> np.ndarray:
    return np.full(_SIZE, 3e38, dtype=np.float32) * np.sign(_work(number)(number))


def _reshaping(number: int) -> np.ndarray:
    return _work(9)(number) if number == 1 else np.zeros((3, 3), dtype=np.float32)


def _node(work: Work | None) -> Callable[[Message], Message | None]:
    def reply(message: Message) -> Message | None:
        if work is None:
            return None
        number = int(message.content["config"]["server-round"])  # type: ignore[index, arg-type, call-overload]
        (record,) = message.content.array_records.values()
        step, model = work(number), record["a.weight"].numpy()
        value = model + step if step.shape == model.shape else step
        content = {
            "arrays": ArrayRecord({"a.weight": Array(value)}),
            "metrics": MetricRecord({"num-examples": 10}),
        }
        return Message(RecordDict(content), reply_to=message)

    return reply


def _started(grid: LocalGrid, rounds: int) -> tuple[np.ndarray, list[RoundRecord]]:
    records: list[RoundRecord] = []
    strategy = FedMerit(fraction_evaluate=0.0, seed=0, record=records.append)
    model = ArrayRecord({"a.weight": Array(np.zeros(_SIZE, np.float32))})
    result = strategy.start(grid, model, num_rounds=rounds)
    return result.arrays["a.weight"].numpy(), records


def _rounds(
    nodes: dict[int, Work | None], check: Callable[[np.ndarray, list[RoundRecord]], str]
) -> str:
    grid = LocalGrid({node: _node(work) for node, work in nodes.items()})
    model, records = _started(grid, 2)
    assert np.isfinite(model).all(), "the model is not finite"
    return check(model, records)


def _stays(model: np.ndarray, records: list[RoundRecord]) -> str:
    assert (model == 0).all(), "the model moved"
    return f"model as it was; {len(records[-1].rejected)} refused"


def _alone(model: np.ndarray, records: list[RoundRecord]) -> str:
    # It cannot be compared with anything, so it is taken as it is.
    assert np.allclose(model, _work(1)(1) + _work(1)(2), rtol=1e-6), "another model than FedAvg's"
    (client,) = records[-1].clients
    assert client.flag is not None, "judged by itself"
    assert client.weight == 1, f"weight {client.weight}"
    assert not client.flagged, client.flag.words
    return client.flag.words


def _both(model: np.ndarray, records: list[RoundRecord]) -> str:
    assert [len(record.clients) for record in records] == [2, 2]
    assert (model != 0).any()
    return "both used in both rounds"


def _finite(_model: np.ndarray, records: list[RoundRecord]) -> str:
    used = records[-1].clients
    return f"{len(used)} used, {sum(client.flagged for client in used)} flagged, finite"


def _reshaped(_model: np.ndarray, records: list[RoundRecord]) -> str:
    assert len(records[0].clients) == 5
    (refusal,) = records[1].rejected
    assert refusal.client == "14"
    return refusal.reason


def _come_and_go() -> str:
    class Changing(LocalGrid):
        """Another set of clients in every round."""

        def send_and_receive(self, messages, *, timeout=None):  # type: ignore[no-untyped-def]
            replies = super().send_and_receive(messages, timeout=timeout)
            first = min(self.nodes) + 2
            self.nodes = {first + i: _node(_work(first + i)) for i in range(5)}
            return replies

    grid = Changing({10 + i: _node(_work(10 + i)) for i in range(5)})
    model, records = _started(grid, 6)
    assert np.isfinite(model).all()
    assert [len(record.clients) for record in records] == [5] * 6
    seen = {client.client for record in records for client in record.clients}
    return f"{len(seen)} clients over 6 rounds, 5 in each"
