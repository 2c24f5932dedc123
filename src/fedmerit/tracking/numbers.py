"""A round as named numbers."""

import math
import re

from fedmerit.errors import MissingExtraError
from fedmerit.types import ClientRecord, RoundRecord

# Per-client lines are drawn for so many clients, the first ones seen: no tool shows more.
PER_CLIENT = 50
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\- ]")
_LONGEST = 80
_LEAST_P = 1e-300


class RoundNumbers:
    """Turns records into named numbers; names of clients become safe and stay different."""

    def __init__(self, per_client: int = PER_CLIENT) -> None:
        self._most = per_client
        self._names: dict[str, str] = {}

    def of(self, record: RoundRecord) -> dict[str, float]:
        """Return what is known of a round, without numbers that are not finite."""
        used = [client for client in record.clients if not math.isnan(client.weight)]
        scores = [client.score for client in used if not math.isnan(client.score)]
        numbers = {f"metrics/{safe(name)}": value for name, value in record.metrics.items()}
        numbers |= {
            "round/clients": len(used),
            "round/flagged": sum(client.flagged for client in used),
            "round/rejected": len(record.rejected),
            "round/paid": sum(client.reward or 0 for client in record.clients),
            "round/mean score": math.fsum(scores) / len(scores) if scores else math.nan,
        }
        # How often each kind occurred, also those that accuse nobody.
        kinds = [client.flag.kind for client in used if client.flag is not None]
        for kind in kinds + [refused.kind for refused in record.rejected]:
            numbers[f"kind/{kind}"] = numbers.get(f"kind/{kind}", 0) + 1
        for client in used:
            if client.behaviour is not None:
                group = f"weight of group/{safe(client.behaviour)}"
                numbers[group] = numbers.get(group, 0.0) + client.weight
        for client in used:
            numbers |= self._client(client)
        return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}

    def _client(self, client: ClientRecord) -> dict[str, float]:
        if client.client not in self._names:
            if len(self._names) >= self._most:
                return {}
            # The number keeps apart what becomes the same when made safe; a label that comes later
            # does not change the name.
            label = f" {safe(client.label)}" if client.label else ""
            self._names[client.client] = f"{safe(client.client)}{label} {len(self._names)}"
        name = self._names[client.client]
        return {f"{what}/{name}": value for what, value in numbers_of(client).items()}


def safe(text: str) -> str:
    """Return text that every tracker takes as a name."""
    return _UNSAFE.sub("_", text)[:_LONGEST] or "_"


def numbers_of(client: ClientRecord) -> dict[str, float]:
    """Return what is known of a client in a round; what was not measured is left out.

    Evidence is minus the decimal logarithm of the p-value: 2 is one in a hundred.
    """
    found = {
        "score": client.score,
        "weight": client.weight,
        "flagged": float(client.flagged),
    }
    if client.p_value is not None and not math.isnan(client.p_value):
        found["evidence"] = -math.log10(max(client.p_value, _LEAST_P)) + 0.0
    if client.reward is not None:
        found["paid"] = float(client.reward)
    return found


def missing(name: str) -> MissingExtraError:
    """Return the error that says what a tracker needs."""
    return MissingExtraError(f"{name} needs an extra: pip install 'fedmerit[tracking]'")
