"""What a round and a run come to: numbers for metrics, a few lines for the server's log."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from fedmerit.types import RoundRecord


def round_metrics(record: RoundRecord) -> dict[str, int | float]:
    """Return score, weight, p-value, flag and reward of every client, by ``name/<client>``."""
    found: dict[str, int | float] = {
        "clients": sum(not math.isnan(client.weight) for client in record.clients),
        "flagged": sum(client.flagged for client in record.clients),
        "rejected": len(record.rejected),
    }
    for client in record.clients:
        entries = {
            "score": client.score,
            "weight": client.weight,
            "p-value": client.p_value,
            "flagged": int(client.flagged),
            "reward": client.reward,
        }
        for name, value in entries.items():
            if value is not None and not math.isnan(value):
                found[f"{name}/{client.client}"] = value
    return found


class RunSummary:
    """Adds up rounds as they end; the ledger has the details."""

    def __init__(self) -> None:
        self._rounds: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        self._weight: Counter[str] = Counter()
        self._reward: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._reason: dict[str, str] = {}

    def add(self, record: RoundRecord) -> None:
        """Take in one round."""
        for entry in record.clients:
            self._reward[entry.client] += entry.reward or 0
            if math.isnan(entry.weight):
                continue
            self._rounds[entry.client] += 1
            self._flags[entry.client] += entry.flagged
            self._weight[entry.client] += entry.weight  # type: ignore[assignment]
            if entry.reason:
                self._reason[entry.client] = entry.reason
        for refusal in record.rejected:
            self._refused[refusal.client] += 1
            self._reason[refusal.client] = refusal.reason

    def lines(self, labels: Mapping[str, str]) -> Iterator[str]:
        """Yield one line per client, those with most weight first."""
        clients = self._rounds.keys() | self._refused.keys()
        for client in sorted(clients, key=lambda c: (-self._weight[c], c)):
            label = f" (calls itself {labels[client]!r})" if client in labels else ""
            rounds = self._rounds[client]
            line = (
                f"{client}{label}: {rounds} rounds, weight {self._weight[client]:.3f}, "
                f"flagged {self._flags[client]}, rejected {self._refused[client]}"
            )
            if self._reward[client]:
                line += f", reward {self._reward[client]}"
            if client in self._reason:
                line += f"; last reason: {self._reason[client]}"
            yield line
