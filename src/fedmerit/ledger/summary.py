"""Contribution and pay over rounds, client by client."""

import sqlite3
from dataclasses import dataclass

from fedmerit.columns import CLIENT
from fedmerit.ledger.reading import Selection
from fedmerit.ledger.rows import schema_of
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
    rounds = connection.execute(f"{picked} SELECT count(*) FROM picked", values).fetchone()[0]
    scored = connection.execute(
        f"""{picked},
        ranked AS (
            SELECT s.*, row_number() OVER (PARTITION BY s.client ORDER BY s.sequence DESC) AS age
            FROM scores s JOIN picked USING (sequence))
        SELECT client, count(DISTINCT sequence), total(score), avg(score),
               avg(CASE WHEN age <= :window THEN score END),
               coalesce(sum(reward), 0), sum(flagged <> 0)
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
    refusals = dict(rejected)
    found = [
        ClientSummary(
            names[number],
            count,
            count / rounds,
            total,
            _or_nan(mean),
            _or_nan(moving),
            reward,
            flagged,
            refusals.pop(number, 0),
            labels.get(number),
        )
        for number, count, total, mean, moving, reward, flagged in scored
    ]
    nan = float("nan")
    found += [
        ClientSummary(names[number], 0, 0.0, 0.0, nan, nan, 0, 0, count)
        for number, count in refusals.items()
    ]
    return sorted(found, key=lambda summary: summary.client)


def read_payouts(connection: sqlite3.Connection, selection: Selection) -> list[Payout]:
    """Add up rewards by client, by id; clients that are owed nothing are left out."""
    condition, values = selection.where(connection)
    rows = connection.execute(
        f"""SELECT c.client, sum(s.reward), count(DISTINCT s.sequence)
        FROM scores s
        JOIN rounds r USING (sequence) JOIN entries e USING (sequence)
        JOIN clients c ON c.number = s.client
        WHERE s.reward > 0 AND {condition}
        GROUP BY s.client""",
        values,
    ).fetchall()
    return sorted((Payout(*row) for row in rows), key=lambda payout: payout.client)


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
