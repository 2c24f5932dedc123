"""Events: what all click logs have in common, as they were recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import DataError

Ids = NDArray[np.int64]
LABELS = (0, 1)


@dataclass(frozen=True)
class Events:
    """A log as recorded: any integers as ids.

    Attributes
    ----------
    user, item, context, label, time : (n,) int64
        One event each: `item` was shown to `user` in `context` (a page, a scenario) at `time`;
        `label` 1 for a click or another sign of interest, else 0.
    known_item, known_category : (m,) int64
        The category of each item for which one is known.
    earlier_user, earlier_item : (e,) int64
        What users had liked before the log begins, oldest first.
    """

    user: Ids
    item: Ids
    context: Ids
    label: Ids
    time: Ids
    known_item: Ids
    known_category: Ids
    earlier_user: Ids
    earlier_item: Ids

    @classmethod
    def of(cls, origin: str, **columns: object) -> "Events":
        """Build events from sequences of integers; `origin` is named if there is nothing to learn.

        What is left out is empty; a missing context is 0 everywhere.
        """
        arrays = {name: np.asarray(value, dtype=np.int64) for name, value in columns.items()}
        arrays.setdefault("context", np.zeros_like(arrays["item"]))
        for field in fields(cls):
            arrays.setdefault(field.name, np.empty(0, dtype=np.int64))
        events = cls(**arrays)
        for label, meaning in zip(LABELS, ("events without a click", "clicks"), strict=True):
            if not (events.label == label).any():
                raise DataError(f"{origin} must have {meaning}, got none in {len(events)} rows")
        return events

    def __len__(self) -> int:
        return len(self.user)

    def arrays(self) -> dict[str, Ids]:
        """Return all columns by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Ids]) -> "Events":
        """Undo `arrays`."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})


EVENT_COLUMNS = tuple(field.name for field in fields(Events))
