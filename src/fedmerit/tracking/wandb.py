"""Weights & Biases."""

from collections.abc import Mapping
from os import PathLike
from typing import Any, Self

from fedmerit.errors import DataError
from fedmerit.tracking.numbers import PER_CLIENT, RoundNumbers, missing
from fedmerit.types import RoundRecord

_MOST_NAMED = 5  # clients in one alert


class WandbTracker:
    """Logs every round to a run of Weights & Biases, and alerts when a client is flagged anew.

    Parameters
    ----------
    project : str
    name : str, optional
        Of the run; by default W&B makes one up.
    folder : path, optional
        Where W&B writes; by default ``wandb`` in the current folder.
    mode : {"online", "offline"}, optional
        As in ``wandb.init``; by default what WANDB_MODE says.
    settings : mapping, optional
        The run's configuration.
    alerts : bool
        Send an alert for every client that is flagged for the first time.
    """

    def __init__(
        self,
        project: str = "fedmerit",
        *,
        name: str | None = None,
        folder: str | PathLike[str] | None = None,
        mode: str | None = None,
        settings: Mapping[str, Any] | None = None,
        alerts: bool = True,
        per_client: int = PER_CLIENT,
    ) -> None:
        try:
            import wandb
        except ModuleNotFoundError:
            raise missing("Weights & Biases") from None
        self._numbers = RoundNumbers(per_client)
        self._alerts, self._flagged = alerts, set[str]()
        try:
            self.run: Any = wandb.init(
                project=project,
                name=name,
                dir=folder,
                mode=mode,  # type: ignore[arg-type]
                config=dict(settings or {}),
                reinit="create_new",
            )
        except wandb.Error as error:
            raise DataError(f"Weights & Biases must take a run, got: {error}") from error

    def __call__(self, record: RoundRecord) -> None:
        """Log a round."""
        # Committed at once: a step that waits for the next one is lost where none follows.
        self.run.log(self._numbers.of(record), step=record.round, commit=True)
        new = [c for c in record.clients if c.flagged and c.client not in self._flagged]
        if self._alerts and new:
            lines = [f"{client.client}: {client.reason}" for client in new[:_MOST_NAMED]]
            more = len(new) - len(lines)
            text = "\n".join([*lines, *([f"and {more} others"] if more else [])])
            self.run.alert(f"round {record.round}: {len(new)} clients flagged", text)
        self._flagged |= {client.client for client in new}

    def close(self, code: int = 0) -> None:
        """End the run."""
        self.run.finish(exit_code=code)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(0 if kind is None else 1)
