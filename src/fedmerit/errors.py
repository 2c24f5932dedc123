"""Everything fedmerit raises on purpose.

::

    FedMeritError
    ├── InvalidInputError (ValueError)    an argument breaks a rule; nothing was changed
    │   ├── UpdatesError                  updates or signals: shape, dtype, NaN, too few clients
    │   │   └── RoundFailedError          every reply of a round was refused for one reason
    │   ├── SettingError                  a setting is out of its range
    │   ├── WeightsError                  weights: negative, all zero, wrong length
    │   └── UnknownNameError              no such scorer, aggregator, data set ...
    ├── DataError                         a data set is missing, incomplete or corrupt
    ├── CheckpointError                   a saved run cannot be continued
    ├── LedgerError                       the record of rounds and payments
    │   ├── LedgerBusyError               another process is writing to it
    │   └── LedgerCorruptError            stored content does not match its hash chain
    └── MissingExtraError (ImportError)   an optional dependency is not installed

A message states the rule and the value that broke it: ``levels must be at least 2, got 1``.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """What a client's reply has to keep to."""

    SENDER = "sender"
    ROUND = "round"
    ONCE = "once"
    WORK = "work"
    FORM = "form"
    NAMES = "names"
    SHAPE = "shape"
    NUMBERS = "numbers"
    FINITE = "finite"
    SIZE = "size"


@dataclass(frozen=True)
class Fault:
    """Why a reply is refused, as a value: the rule that it breaks, where, and what it has instead.

    Equal faults are one cause, whatever the words for people are.
    """

    rule: Rule
    found: tuple[object, ...] = ()


class FedMeritError(Exception):
    """Base of every error raised on purpose."""


class InvalidInputError(FedMeritError, ValueError):
    """An argument breaks a stated rule; of a client's reply, `fault` says which."""

    def __init__(self, *told: object, fault: Fault | None = None) -> None:
        super().__init__(*told)
        self.fault = fault


class UpdatesError(InvalidInputError):
    """The updates of a round cannot be used as they are."""


class RoundFailedError(UpdatesError):
    """Every reply of a round was refused for the same reason: the fault is not a client's."""


class SettingError(InvalidInputError):
    """A setting is outside its range."""


class WeightsError(InvalidInputError):
    """Aggregation weights cannot be used as they are."""


class UnknownNameError(InvalidInputError):
    """A name that is not registered."""

    @classmethod
    def of(cls, kind: str, name: object, known: Iterable[str]) -> "UnknownNameError":
        """Build the error for `name`, suggesting the nearest of the `known` names."""
        names = sorted(known)
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return cls(f"{kind} must be one of {', '.join(names)}, got {name!r}{hint}")


class DataError(FedMeritError):
    """A data set is missing, incomplete or corrupt."""


class CheckpointError(FedMeritError):
    """A saved run cannot be continued."""


class LedgerError(FedMeritError):
    """The ledger cannot do what was asked."""


class LedgerBusyError(LedgerError):
    """Another process is writing to the ledger."""


class LedgerCorruptError(LedgerError):
    """Stored content does not match its hash chain."""


class MissingExtraError(FedMeritError, ImportError):
    """An optional dependency is not installed."""
