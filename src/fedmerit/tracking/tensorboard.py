"""TensorBoard."""

import time
from pathlib import Path
from typing import Self

from fedmerit.tracking.numbers import PER_CLIENT, RoundNumbers, missing
from fedmerit.types import RoundRecord


class TensorBoardTracker:
    """Writes every round to an event file in `folder`; look with ``tensorboard --logdir``."""

    def __init__(self, folder: str | Path, *, per_client: int = PER_CLIENT) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ModuleNotFoundError:
            raise missing("TensorBoard") from None
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
