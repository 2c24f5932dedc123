"""Rounds for people and for an engine's log: names, lines and plain numbers."""

import math
from collections.abc import Iterator, Mapping

from fedmerit.server.history import Total
from fedmerit.types import RoundRecord


def called(client: str, label: str | None) -> str:
    """Return a client's id, with how it calls itself: its own word, never its identity."""
    return f"{client} (calls itself {label!r})" if label else client


def lines_of(totals: Mapping[str, Total]) -> Iterator[str]:
    """Yield one line per client, those with most weight first."""
    for client in sorted(totals, key=lambda c: (-totals[c].weight, c)):
        total = totals[client]
        line = (
            f"{called(client, total.label)}: {total.rounds} rounds, weight "
            f"{total.weight / max(total.rounds, 1):.3f} on average, flagged {total.flagged}, "
            f"rejected {total.rejected}"
        )
        if total.reward:
            line += f", reward {total.reward}"
        if total.value is not None:
            line += f", value {total.value:+.4f}"
            line += "" if total.value_error is None else f" ± {total.value_error:.4f}"
        if total.flag is not None:
            line += f"; last reason: {total.flag.words}"
        yield line


def round_metrics(record: RoundRecord, *, clients: bool) -> dict[str, int | float]:
    """Return what a round came to: how many were judged, flagged and rejected, and what was paid.

    With `clients` also score, weight, p-value, flag and reward of every client, by
    ``name/<client>``.
    """
    found: dict[str, int | float] = {
        "clients": sum(not math.isnan(client.weight) for client in record.clients),
        "flagged": sum(client.flagged for client in record.clients),
        "rejected": len(record.rejected),
    }
    if any(client.reward is not None for client in record.clients):
        found["paid"] = sum(client.reward or 0 for client in record.clients)
    for client in record.clients if clients else ():
        entries = {
            "score": client.score,
            "weight": client.weight,
            "p-value": client.p_value,
            "flagged": int(client.flagged),
            "reward": client.reward,
            "value": client.value,
        }
        for name, value in entries.items():
            if value is not None and not math.isnan(value):
                found[f"{name}/{client.client}"] = value
    return found
