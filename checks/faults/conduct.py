"""What clients of a simulated federation do to it: every behaviour, and rounds at their limits."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np

from checks.faults.base import Fault, survived
from fedmerit.behaviours import BEHAVIOURS, Assignment
from fedmerit.errors import RoundFailedError
from fedmerit.simulation.config import FederationConfig, ModelChoice
from fedmerit.simulation.datasets import Dataset, load
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.run import run
from fedmerit.simulation.training import LocalTraining
from fedmerit.types import RoundRecord

CONFIG = FederationConfig(
    users=12,
    per_round=10,
    rounds=10,
    model=ModelChoice(hidden=16, dropout=0.0),
    training=LocalTraining(epochs=2, learning_rate=0.05),
)
# Whoever did not work must not be weighed like those who did; these did, or only lied about size.
WORKERS = {"honest", "inflated-size", "noise", "boost", "copies", "label-flip", "lazy"}
# Of the accuracy that is reached if the same clients send zeros.
_LEAST_SHARE = 0.8


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    for name in sorted(BEHAVIOURS):
        expected = "model finite, 80 % of the accuracy without them" + (
            "" if name in WORKERS else ", weighed below the honest"
        )
        yield survived(
            "conduct", "simulate", f"a quarter {name}", expected, partial(_behaved, name)
        )
    for name in ("zero", "random-update", "stale", "colluders"):
        yield survived(
            "conduct", "simulate", f"everybody {name}", "model finite", partial(_everybody, name)
        )
    yield survived(
        "conduct", "simulate", "rounds of two clients", "model finite", partial(_sized, 2)
    )
    for rate in (1e3, 1e20):
        yield survived(
            "conduct", "simulate", f"learning rate {rate:g}: everybody diverges",
            "replies rejected or model finite, or a named end", partial(_diverging, rate),
        )  # fmt: skip


@cache
def _digits() -> Dataset:
    return load("digits")  # type: ignore[return-value]


def _run(config: FederationConfig) -> tuple[np.ndarray, list[RoundRecord]]:
    records: list[RoundRecord] = []
    last = run(Federation(config, _digits()), on_round=records.append)
    assert np.isfinite(last.model).all(), "the model is not finite"
    for record in records:
        total = sum(client.weight for client in record.clients)
        # Nobody has weight where nobody shows work: then the model stays.
        assert total == 0 or abs(total - 1) < 1e-9, f"weights sum to {total}"
    return last.model, records


def _behaved(name: str) -> str:
    _, records = _run(replace(CONFIG, behaviours=Assignment.parse(f"25% {name}")))
    accuracy = records[-1].metrics["accuracy"]
    used = [client for record in records[1:] for client in record.clients]
    honest = [c.weight for c in used if c.behaviour == "honest"]
    others = [c.weight for c in used if c.behaviour != "honest"]
    ratio = np.mean(others) / np.mean(honest) if others and honest else np.nan
    if name not in WORKERS and others:
        assert ratio < 1, f"weighed {ratio:.2f} of the honest"
    seen = f"accuracy {accuracy:.2f}, {_without():.2f} without them, weight {ratio:.2f}"
    assert accuracy >= _LEAST_SHARE * _without(), seen
    return f"{seen} of the honest"


@cache
def _without() -> float:
    _, records = _run(replace(CONFIG, behaviours=Assignment.parse("25% zero")))
    return records[-1].metrics["accuracy"]


def _everybody(name: str) -> str:
    _, records = _run(replace(CONFIG, behaviours=Assignment.parse(f"100% {name}")))
    return f"accuracy {records[-1].metrics['accuracy']:.2f}, finite"


def _sized(clients: int) -> str:
    _, records = _run(replace(CONFIG, per_round=clients))
    return f"accuracy {records[-1].metrics['accuracy']:.2f}, finite"


def _diverging(rate: float) -> str:
    training = LocalTraining(epochs=2, learning_rate=rate)
    try:
        _, records = _run(replace(CONFIG, training=training))
    except RoundFailedError as error:  # all replies, for one reason: the operator's to mend
        return f"ended: {error}"
    return f"{sum(len(record.rejected) for record in records)} replies rejected, model finite"
