"""What rounds have come to so far, client by client, and in lines for a log."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fedmerit.flags import Flag
from fedmerit.types import RoundRecord


@dataclass(frozen=True)
class Total:
    """One client over all rounds so far.

    Attributes
    ----------
    rounds : int
        Rounds in which its reply was judged.
    score, weight : float
        Sums over these rounds.
    reward : int
        All it was paid, in the smallest unit.
    flagged : int
        Rounds in which it was flagged.
    rejected : int
        Replies that were not used.
    flag : Flag or None
        The latest.
    label : str or None
        How it calls itself.
    value, value_error : float or None
        What it added to the model as its peers judged it, and how far that may be off: the sum of
        its rounds' standard errors, since they rest on the same judgements. None without a panel.
    """

    rounds: int = 0
    score: float = 0.0
    weight: float = 0.0
    reward: int = 0
    flagged: int = 0
    rejected: int = 0
    flag: Flag | None = None
    label: str | None = None
    value: float | None = None
    value_error: float | None = None


def with_round(known: Mapping[str, Total], record: RoundRecord) -> dict[str, Total]:
    """Return the totals after one more round."""
    totals = dict(known)
    for entry in record.clients:
        before = totals.get(entry.client, Total())
        after = replace(
            before,
            reward=before.reward + (entry.reward or 0),
            flag=entry.flag or before.flag,
            label=entry.label or before.label,
            value=_sum(before.value, entry.value),
            value_error=_sum(before.value_error, entry.value_error),
        )
        if not math.isnan(entry.weight):
            after = replace(
                after,
                rounds=before.rounds + 1,
                score=before.score + (0.0 if math.isnan(entry.score) else entry.score),
                weight=before.weight + entry.weight,
                flagged=before.flagged + entry.flagged,
            )
        totals[entry.client] = after
    for refusal in record.rejected:
        before = totals.get(refusal.client, Total())
        flag = Flag(refusal.kind, refusal.reason)
        totals[refusal.client] = replace(before, rejected=before.rejected + 1, flag=flag)
    return totals


def called(client: str, label: str | None) -> str:
    """Return a client's id, with how it calls itself: its own word, never its identity."""
    return f"{client} (calls itself {label!r})" if label else client


def _sum(before: float | None, more: float | None) -> float | None:
    return before if more is None else (before or 0.0) + more


def lines_of(totals: Mapping[str, Total]) -> Iterator[str]:
    """Yield one line per client, those with most weight first."""
    for client in sorted(totals, key=lambda c: (-totals[c].weight, c)):
        total = totals[client]
        line = (
            f"{called(client, total.label)}: {total.rounds} rounds, weight {total.weight:.3f}, "
            f"flagged {total.flagged}, rejected {total.rejected}"
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
