"""Rounds where people already look: TensorBoard and MLflow, as callables for round records.

::

    with TensorBoardTracker("runs/tb") as tracker:
        run(federation, on_round=tracker)
"""

import math
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from fedmerit.errors import DataError, MissingExtraError
from fedmerit.types import ClientRecord, RoundRecord

# Per-client lines are drawn for so many clients, the first ones seen: no tool shows more.
PER_CLIENT = 50
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\- ]")
_LONGEST = 80


class RoundNumbers:
    """Turns records into named numbers; names of clients become safe and stay different."""

    def __init__(self, per_client: int = PER_CLIENT) -> None:
        self._most = per_client
        self._names: dict[str, str] = {}

    def of(self, record: RoundRecord) -> dict[str, float]:
        """Return what is known of a round, without numbers that are not finite."""
        used = [client for client in record.clients if not math.isnan(client.weight)]
        scores = [client.score for client in used if not math.isnan(client.score)]
        numbers = {f"metrics/{_safe(name)}": value for name, value in record.metrics.items()}
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
                group = f"weight of group/{_safe(client.behaviour)}"
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
            label = f" {_safe(client.label)}" if client.label else ""
            self._names[client.client] = f"{_safe(client.client)}{label} {len(self._names)}"
        name = self._names[client.client]
        return {
            f"score/{name}": client.score,
            f"weight/{name}": client.weight,
            f"flagged/{name}": float(client.flagged),
        }


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text)[:_LONGEST] or "_"


class TensorBoardTracker:
    """Writes every round to an event file in `folder`; look with ``tensorboard --logdir``."""

    def __init__(self, folder: str | Path, *, per_client: int = PER_CLIENT) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ModuleNotFoundError:
            raise _missing("TensorBoard") from None
        self._numbers = RoundNumbers(per_client)
        self._writer = EventFileWriter(str(folder))

    def __call__(self, record: RoundRecord) -> None:
        """Write a round."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in self._numbers.of(record).items()
        ]
        event = Event(wall_time=time.time(), step=record.round, summary=Summary(value=values))
        self._writer.add_event(event)
        self._writer.flush()

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
            raise _missing("MLflow") from None
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
            self._client.log_param(self.run_id, _safe(name), str(value)[:500])

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


def _missing(name: str) -> MissingExtraError:
    return MissingExtraError(f"{name} needs an extra: pip install 'fedmerit[tracking]'")
