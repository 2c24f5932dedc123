"""MLflow."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from fedmerit.errors import DataError
from fedmerit.tracking.numbers import PER_CLIENT, RoundNumbers, missing, safe
from fedmerit.types import RoundRecord


class MLflowTracker:
    """Logs every round to a run of MLflow, in the experiment ``fedmerit``.

    Parameters
    ----------
    uri : str
        Address of a tracking server, or a folder (which MLflow wants allowed by
        ``MLFLOW_ALLOW_FILE_STORE=true``).
    settings : mapping
        Logged as parameters of the run.
    """

    experiment = "fedmerit"
    _MOST_AT_ONCE = 1000  # metrics in one request, MLflow's limit

    def __init__(
        self,
        uri: str,
        *,
        settings: Mapping[str, Any] | None = None,
        per_client: int = PER_CLIENT,
    ) -> None:
        try:
            from mlflow.exceptions import MlflowException
            from mlflow.tracking import MlflowClient
        except ModuleNotFoundError:
            raise missing("MLflow") from None
        self._numbers = RoundNumbers(per_client)
        try:
            self._client = MlflowClient(
                tracking_uri=uri if "://" in uri else Path(uri).resolve().as_uri()
            )
            found = self._client.get_experiment_by_name(self.experiment)
            where = (
                self._client.create_experiment(self.experiment)
                if found is None
                else found.experiment_id
            )
            self.run_id = str(self._client.create_run(where).info.run_id)
        except MlflowException as error:
            raise DataError(f"MLflow at {uri} must take a run, got: {error}") from error
        for name, value in (settings or {}).items():
            self._client.log_param(self.run_id, safe(name), str(value)[:500])

    def __call__(self, record: RoundRecord) -> None:
        """Log a round."""
        from mlflow.entities import Metric

        now = round(1000 * time.time())
        metrics = [
            Metric(name, value, now, record.round)
            for name, value in self._numbers.of(record).items()
        ]
        for begin in range(0, len(metrics), self._MOST_AT_ONCE):
            self._client.log_batch(self.run_id, metrics[begin : begin + self._MOST_AT_ONCE])

    def close(self, status: str = "FINISHED") -> None:
        """End the run."""
        self._client.set_terminated(self.run_id, status)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close("FINISHED" if kind is None else "KILLED")
