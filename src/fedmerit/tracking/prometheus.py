"""Prometheus: an address that it can read, made of OpenTelemetry's gauges."""

from typing import Self

from fedmerit.errors import SettingError
from fedmerit.tracking.numbers import PER_CLIENT, missing
from fedmerit.tracking.opentelemetry import OpenTelemetryTracker
from fedmerit.types import RoundRecord


class PrometheusTracker:
    """Serves the numbers of the last round on ``http://host:port/metrics``.

    Parameters
    ----------
    port : int
        0: any that is free; `port` says which.
    host : str
        Address to listen on; only this machine by default.
    run : str, optional
        Becomes the label ``run`` of everything.
    per_client : int
        How many clients have time series of their own.
    """

    def __init__(
        self,
        port: int = 9464,
        *,
        host: str = "127.0.0.1",
        run: str = "",
        per_client: int = PER_CLIENT,
    ) -> None:
        try:
            from opentelemetry.exporter.prometheus import PrometheusMetricReader
            from opentelemetry.sdk.metrics import MeterProvider
            from prometheus_client import CollectorRegistry, start_http_server
        except ModuleNotFoundError:
            raise missing("Prometheus") from None
        registry = CollectorRegistry()
        self._provider = MeterProvider([PrometheusMetricReader(registry=registry)])
        self._tracker = OpenTelemetryTracker(self._provider, run=run, per_client=per_client)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            self._provider.shutdown()
            raise SettingError(
                f"cannot listen on {host}:{port}: {error.strerror or error}"
            ) from error
        self.port: int = self._server.server_port

    def __call__(self, record: RoundRecord) -> None:
        """Take a round."""
        self._tracker(record)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._provider.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
