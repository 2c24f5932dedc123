"""Values as SQLite will give them back, or an error that says why not."""

import math
import operator

from fedmerit.errors import LedgerError
from fedmerit.flags import Kind
from fedmerit.ledger.proof.encoding import Value
from fedmerit.records.columns import FLAG, INTEGER, KIND, REAL, Column

_MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1
# Squares of so large numbers can still be added up.
_LARGEST = 1e100


def text(name: str, value: object) -> str:
    """Check text: anything that UTF-8 can write."""
    if not isinstance(value, str):
        raise LedgerError(f"{name} must be text, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise LedgerError(f"{name} must be valid Unicode, got {value!r}") from None
    return str.__str__(value)  # a plain str also of a subclass such as numpy's


def integer(name: str, value: object) -> int:
    """Check an integer of at most 64 bits, which is what SQLite holds."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise LedgerError(f"{name} must be an integer, got {value!r}") from None
    if not _MIN_INTEGER <= number <= MAX_INTEGER:
        raise LedgerError(f"{name} must fit in 64 bits, got {number}")
    return int(number)


def real(name: str, value: object) -> float | None:
    """Check a real number; "not a number" is stored as nothing, and minus zero as zero."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise LedgerError(f"{name} must be a number, got {value!r}") from None
    return None if math.isnan(number) else number + 0.0


def finite(name: str, value: object) -> float | None:
    """Check a real number of a client: it is added up and squared, which must stay finite."""
    number = real(name, value)
    if number is not None and abs(number) > _LARGEST:
        raise LedgerError(f"{name} must be finite and at most {_LARGEST:g}, got {number}")
    return number


def amount(name: str, value: object) -> int:
    """Check a count or an amount of money: nobody is paid less than nothing."""
    number = integer(name, value)
    if number < 0:
        raise LedgerError(f"{name} must not be negative, got {number}")
    return number


def kind(name: str, value: object) -> str:
    """Check a kind of flag: an unknown one could be written, but never read."""
    if value not in Kind.__members__.values():
        raise LedgerError(f"{name} must be one of {', '.join(Kind)}, got {value!r}")
    return text(name, value)


def yes_or_no(_: str, value: object) -> int:
    """Return 1 or 0."""
    return 1 if value else 0


_CHECKS = {REAL: finite, INTEGER: amount, KIND: kind, FLAG: yes_or_no}


def stored(column: Column, record: object) -> Value:
    """Return the value of a record's column exactly as SQLite will return it."""
    try:
        value = column.value(record)
    except AttributeError as error:
        raise LedgerError(f"{column.name} must be that of a record: {error}") from error
    if value is None and column.missing is None and not column.required:
        return None
    return _CHECKS.get(column.sort, text)(column.name, value)
