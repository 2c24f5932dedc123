"""Contribution and pay over rounds, client by client."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from fedmerit.columns import CLIENT
from fedmerit.errors import LedgerCorruptError
from fedmerit.ledger.reading import Selection
from fedmerit.ledger.records import require_types
from fedmerit.ledger.schema import schema_of
from fedmerit.validation import check_count

_LABEL_SINCE = next(column.since for column in CLIENT if column.name == "label")


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
    size = check_count("window", window, least=1)
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
    scored = connection.execute(
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
    ).fetchall()
    rejected = connection.execute(
        f"{picked} SELECT client, count(*) FROM rejections JOIN picked USING (sequence) "
        "GROUP BY client",
        values,
    ).fetchall()
    labels: dict[int, str] = {}
    if schema_of(connection) >= _LABEL_SINCE:  # of each client that of its newest round
        newest = connection.execute(
            f"{picked} SELECT client, label, max(sequence) FROM scores "
            "JOIN picked USING (sequence) WHERE label IS NOT NULL GROUP BY client",
            values,
        )
        labels = {number: label for number, label, _ in newest}
    names = dict(connection.execute("SELECT number, client FROM clients").fetchall())
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
    """Add up rewards by client over entries, by id; clients that are owed nothing are left out."""
    amounts: dict[int, int] = {}
    counts: dict[int, int] = {}
    for sequence in rounds:
        rows = connection.execute(
            "SELECT client, reward FROM scores WHERE sequence = ? AND reward > 0", (sequence,)
        )
        paid: dict[int, int] = {}
        for client, reward in rows:
            paid[client] = paid.get(client, 0) + reward
        for client, reward in paid.items():
            amounts[client] = amounts.get(client, 0) + reward
            counts[client] = counts.get(client, 0) + 1
    names = dict(connection.execute("SELECT number, client FROM clients").fetchall())
    require_types("client", names.values(), str)
    require_types("reward", amounts.values(), int)
    found = [Payout(names[number], amounts[number], counts[number]) for number in amounts]
    return sorted(found, key=lambda payout: payout.client)


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
