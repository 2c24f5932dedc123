"""Contribution and pay over rounds, client by client."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedmerit.errors import LedgerCorruptError
from fedmerit.flags import Kind
from fedmerit.ledger.file.reading import Selection
from fedmerit.ledger.file.records import require_types
from fedmerit.ledger.file.rows import every_row
from fedmerit.ledger.file.schema import schema_of
from fedmerit.ledger.file.values import integer
from fedmerit.records.columns import CLIENT
from fedmerit.validation import check_count

_SINCE = {column.name: column.since for column in CLIENT}


@dataclass(frozen=True)
class ClientSummary:
    """A client over the selected rounds.

    Attributes
    ----------
    rounds : int
        Rounds in which the client was scored.
    participation : float
        That number over the number of rounds.
    total_score, mean_score : float
        Over those rounds.
    moving_average : float
        Mean score over the client's last rounds, as many as the window says.
    total_reward : int
        Sum of rewards, in the smallest unit.
    flagged, rejected : int
        In how many rounds the client was flagged, and how many replies were rejected.
    label : str or None
        How the client called itself last.
    undecided : int
        In how many rounds nobody could tell whether it worked; versions of the ledger before kinds
        of flags did not record that.
    """

    client: str
    rounds: int
    participation: float
    total_score: float
    mean_score: float
    moving_average: float
    total_reward: int
    flagged: int
    rejected: int
    label: str | None = None
    undecided: int = 0


@dataclass(frozen=True)
class Payout:
    """What a client is owed, and for how many rounds."""

    client: str
    amount: int
    rounds: int


def read_summaries(
    connection: sqlite3.Connection, selection: Selection, window: int
) -> list[ClientSummary]:
    """Summarise every client that was scored or rejected, by id."""
    size = integer("window", check_count("window", window, least=1))
    condition, values = selection.where(connection)
    picked = (
        "WITH picked AS (SELECT e.sequence FROM rounds r JOIN entries e USING (sequence) "
        f"WHERE {condition})"
    )
    odd = connection.execute(
        f"{picked} SELECT 1 FROM scores JOIN picked USING (sequence) WHERE "
        "typeof(score) NOT IN ('real', 'null') OR typeof(reward) NOT IN ('integer', 'null') "
        "OR typeof(flagged) <> 'integer' LIMIT 1",
        values,
    ).fetchone()
    if odd is not None:
        raise LedgerCorruptError("score must be a number, reward and flagged integers, got others")
    rounds = connection.execute(f"{picked} SELECT count(*) FROM picked", values).fetchone()[0]
    scored = every_row(
        connection,
        f"""{picked},
        ranked AS (
            SELECT s.*, row_number() OVER (PARTITION BY s.client ORDER BY s.sequence DESC) AS age
            FROM scores s JOIN picked USING (sequence))
        SELECT client, count(DISTINCT sequence), total(score), avg(score),
               avg(CASE WHEN age <= :window THEN score END),
               coalesce(sum(reward >> 32), 0), coalesce(sum(reward & 4294967295), 0),
               sum(flagged <> 0)
        FROM ranked GROUP BY client""",
        values | {"window": size},
    )
    rejected = every_row(
        connection,
        f"{picked} SELECT client, count(*) FROM rejections JOIN picked USING (sequence) "
        "GROUP BY client",
        values,
    )
    undecided: dict[int, int] = {}
    if schema_of(connection) >= _SINCE["kind"]:
        told = every_row(
            connection,
            f"{picked} SELECT client, count(*) FROM scores JOIN picked USING (sequence) "
            "WHERE kind = :kind GROUP BY client",
            values | {"kind": Kind.UNDECIDED.value},
        )
        undecided = dict(told)
    labels: dict[int, str] = {}
    if schema_of(connection) >= _SINCE["label"]:  # of each client that of its newest round
        newest = every_row(
            connection,
            f"{picked} SELECT client, label, max(sequence) FROM scores "
            "JOIN picked USING (sequence) WHERE label IS NOT NULL GROUP BY client",
            values,
        )
        labels = {number: label for number, label, _ in newest}
    names = dict(every_row(connection, "SELECT number, client FROM clients"))
    require_types("client", names.values(), str)
    require_types("label", labels.values(), str)
    refusals = dict(rejected)
    found = [
        ClientSummary(
            names[number],
            count,
            count / rounds,
            total,
            _or_nan(mean),
            _or_nan(moving),
            (high << 32) + low,  # in halves: SQLite's sum has 64 bits
            flagged,
            refusals.pop(number, 0),
            labels.get(number),
            undecided.get(number, 0),
        )
        for number, count, total, mean, moving, high, low, flagged in scored
    ]
    nan = float("nan")
    found += [
        ClientSummary(names[number], 0, 0.0, 0.0, nan, nan, 0, 0, count)
        for number, count in refusals.items()
    ]
    return sorted(found, key=lambda summary: summary.client)


def read_payouts(connection: sqlite3.Connection, rounds: Sequence[int]) -> list[Payout]:
    """Add up rewards by client over entries, by id; see `add_up`."""
    names = dict(every_row(connection, "SELECT number, client FROM clients"))
    require_types("client", names.values(), str)
    query = "SELECT client, reward FROM scores WHERE sequence = ?"
    found = (every_row(connection, query, (sequence,)) for sequence in rounds)
    return add_up(((names[client], reward) for client, reward in rows) for rows in found)


def add_up(rounds: Iterable[Iterable[tuple[str, int | None]]]) -> list[Payout]:
    """Add up rewards of rounds by client, by id; clients that are owed nothing are left out."""
    amounts: dict[str, int] = {}
    counts: dict[str, int] = {}
    for rows in rounds:
        paid: dict[str, int] = {}
        for client, reward in rows:
            require_types("reward", (reward,), int)
            if reward is not None and reward > 0:
                paid[client] = paid.get(client, 0) + reward
        for client, reward in paid.items():
            amounts[client] = amounts.get(client, 0) + reward
            counts[client] = counts.get(client, 0) + 1
    return [Payout(client, amounts[client], counts[client]) for client in sorted(amounts)]


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
