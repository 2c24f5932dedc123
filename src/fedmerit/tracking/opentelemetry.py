"""OpenTelemetry: what is known of the last round, as gauges that any of its exporters can read."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from fedmerit.tracking.numbers import PER_CLIENT, missing, numbers_of
from fedmerit.types import RoundRecord
from fedmerit.version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

Key = tuple[tuple[str, str], ...]

# Name of the instrument, and what it says; each has one value per client.
CLIENT_GAUGES = {
    "score": "Score of the client in its last round",
    "weight": "Weight of the client in its last round",
    "evidence": "Evidence of private work in its last round, minus the logarithm of the p-value",
    "flagged": "1 if the client was flagged in its last round",
}
ROUND_GAUGES = {
    "round": "Number of the last round",
    "clients": "Clients whose replies were judged in the last round",
    "flagged": "Clients that were flagged in the last round",
    "rejected": "Replies that were rejected in the last round",
}


class OpenTelemetryTracker:
    """Keeps the numbers of the last round ready for whatever reads the meter provider.

    Instruments (attributes): ``fedmerit.client.score``, ``.weight``, ``.evidence``, ``.flagged``
    (client, label); ``fedmerit.client.paid`` and ``fedmerit.client.flags``, totals so far (client,
    label; kind); ``fedmerit.round``, ``.clients``, ``.flagged``, ``.rejected``; ``fedmerit.metric``
    (name).

    Parameters
    ----------
    provider : MeterProvider, optional
        By default the global one.
    run : str, optional
        Becomes the attribute ``run`` of everything.
    per_client : int
        How many clients have gauges of their own, the first ones seen: each is a time series.
    """

    def __init__(
        self,
        provider: "MeterProvider | None" = None,
        *,
        run: str = "",
        per_client: int = PER_CLIENT,
    ) -> None:
        try:
            from opentelemetry.metrics import get_meter_provider
        except ModuleNotFoundError:
            raise missing("OpenTelemetry") from None
        self._run: Key = (("run", run),) if run else ()
        self._most, self._clients = per_client, dict[str, Key]()
        self._values: dict[str, dict[Key, float]] = {}
        meter = (provider or get_meter_provider()).get_meter("fedmerit", __version__)
        for name, words in CLIENT_GAUGES.items():
            self._observe(meter.create_observable_gauge, f"client.{name}", words)
        for name, words in ROUND_GAUGES.items():
            self._observe(meter.create_observable_gauge, name, words)
        self._observe(meter.create_observable_gauge, "metric", "Measures of the global model")
        counter = meter.create_observable_counter
        self._observe(counter, "client.paid", "All that the client was paid, in the smallest unit")
        self._observe(counter, "client.flags", "Rounds in which the client was flagged, by kind")

    def _observe(self, create: Callable[..., object], name: str, words: str) -> None:
        from opentelemetry.metrics import Observation

        values = self._values.setdefault(name, {})

        def told(_options: object) -> Iterable[Any]:
            return [Observation(value, dict(key)) for key, value in list(values.items())]

        create(f"fedmerit.{name}", callbacks=[told], description=words)

    def __call__(self, record: RoundRecord) -> None:
        """Take a round."""
        used = [client for client in record.clients if client.weight == client.weight]
        for name, number in (
            ("round", record.round),
            ("clients", len(used)),
            ("flagged", sum(client.flagged for client in record.clients)),
            ("rejected", len(record.rejected)),
        ):
            self._values[name][self._run] = number
        for name, value in record.metrics.items():
            if value == value:
                self._values["metric"][(*self._run, ("name", name))] = value
        for client in record.clients:
            key = self._key(client.client, client.label)
            if key is None:
                continue
            if client in used:
                for name, value in numbers_of(client).items():
                    if name in CLIENT_GAUGES and value == value:
                        self._values[f"client.{name}"][key] = value
            if client.reward is not None:
                self._add("client.paid", key, client.reward)
            if client.flag is not None and client.flagged:
                self._add("client.flags", (*key, ("kind", str(client.flag.kind))), 1)

    def _add(self, name: str, key: Key, value: float) -> None:
        totals = self._values[name]
        totals[key] = totals.get(key, 0) + value

    def _key(self, client: str, label: str | None) -> Key | None:
        """Return a client's attributes; a label that comes later does not start a new series."""
        if client not in self._clients:
            if len(self._clients) >= self._most:
                return None
            named = (("label", label),) if label else ()
            self._clients[client] = (*self._run, ("client", client), *named)
        return self._clients[client]

    def close(self) -> None:
        """Forget the last round: there is nothing to tell any more."""
        for values in self._values.values():
            values.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
