"""A judged round before its panel: the bench it sits on, and what values change in its record."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan

import numpy as np

from fedmerit.panel import Bench, Heard, Panel
from fedmerit.rng import stream
from fedmerit.server.judging import Judgement, pay
from fedmerit.server.rules import RoundRules
from fedmerit.types import ClientRecord, Contributions, FloatArray, Rejection, RoundRecord


def seat(panel: Panel, judged: Judgement, number: int, after: FloatArray) -> Bench:
    """Return the bench of a judged round, which led to the model `after`; nobody is asked yet.

    Inside a group updates weigh as they do in the model. Who is kept out of that weighs as much as
    one inside it usually does.
    """
    weights = judged.weights
    usual = float(weights[weights > 0].mean()) if weights.any() else 1.0
    updates = judged.replies.matrix() if judged.replies.part else judged.replies.updates
    if (judged.keep < 1).any():
        updates = (updates * judged.keep[:, None]).astype(updates.dtype)
    return Bench(
        panel,
        number,
        tuple(judged.replies.clients),
        updates,
        np.where(weights > 0, weights, usual),
        judged.start,
        after,
    )


def weights_of(judged: Judgement) -> dict[str, float]:
    """Return what each client of a judged round weighs in the model."""
    return dict(zip(judged.replies.clients, map(float, judged.weights), strict=True))


def sizes_of(judged: Judgement) -> dict[str, float | None]:
    """Return the data size that each client of a judged round claims."""
    return dict(zip(judged.replies.clients, judged.replies.num_examples, strict=True))


def apart_of(judged: Judgement) -> list[str]:
    """Return who is kept out of the model."""
    return [client for client, weight in weights_of(judged).items() if weight == 0]


def panel_stream(seed: int | None, number: int) -> np.random.Generator:
    """Return the random stream that draws the questions of round `number`."""
    return np.random.default_rng() if seed is None else stream(seed, "round", number, "panel")


def with_values(
    record: RoundRecord,
    heard: Heard,
    digests: Mapping[str, str],
    rules: RoundRules,
    worked: Mapping[str, int],
    sizes: Mapping[str, float | None],
) -> RoundRecord:
    """Return the record of a round with what its judges found, and paid by that if rules say so.

    `worked` says in how many earlier rounds each client worked, `sizes` what data each claims.
    """

    def judged(entry: ClientRecord) -> ClientRecord:
        error = heard.errors.get(entry.client, nan)
        return replace(
            entry,
            value=heard.values.get(entry.client),
            value_error=None if np.isnan(error) else error,
            judgement=digests.get(entry.client),
        )

    known = {entry.client for entry in record.clients}
    # A judge may not have trained in this round.
    visitors = tuple(ClientRecord(name, nan, nan) for name in digests if name not in known)
    clients = tuple(judged(entry) for entry in record.clients + visitors)
    if rules.panel is not None and rules.panel.pays:
        clients = _paid(clients, record.rejected, rules, worked, sizes)
    metrics = dict(record.metrics)
    if not np.isnan(heard.gain):
        metrics["panel/gain"] = heard.gain
    return replace(record, clients=clients, metrics=metrics)


def _paid(
    clients: tuple[ClientRecord, ...],
    rejected: Sequence[Rejection],
    rules: RoundRules,
    worked: Mapping[str, int],
    sizes: Mapping[str, float | None],
) -> tuple[ClientRecord, ...]:
    """Return the clients paid by their values; who has none is paid as one that is excluded."""
    used = [entry for entry in clients if not np.isnan(entry.weight)]
    values = np.array([entry.value or 0.0 for entry in used])
    eligible = np.array([entry.value is not None and entry.weight > 0 for entry in used])
    flags = [entry.flag for entry in used]
    by_value = Contributions.of("value", values, flags=flags, eligible=eligible.astype(np.bool_))
    names = [entry.client for entry in used]
    claimed = [sizes[name] for name in names]
    rewards, _ = pay(rules, by_value, names, claimed, rejected, worked)
    if rewards is None:
        return clients
    return tuple(replace(entry, reward=rewards.get(entry.client)) for entry in clients)
