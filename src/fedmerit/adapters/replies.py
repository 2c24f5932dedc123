"""Replies are hostile input, whatever engine brings them."""

import math

from fedmerit.errors import InvalidInputError

LONGEST_REASON = 200
_MOST_EXAMPLES = 2**63 - 1


def check_size(key: str, value: object) -> float:
    """Return the data size that a client claims under `key`."""
    if value is None:
        raise InvalidInputError(f"metrics must have {key}, got none")
    if isinstance(value, list | bool) or not isinstance(value, int | float):
        raise InvalidInputError(f"{key} must be a number, got {value!r}"[:LONGEST_REASON])
    if not math.isfinite(value) or not 0 < value <= _MOST_EXAMPLES:
        raise InvalidInputError(f"{key} must be positive and at most 2^63 - 1, got {value}")
    return float(value)


def clean(text: str, longest: int = LONGEST_REASON) -> str:
    """Return what a client wrote as one short line that can be stored and shown."""
    line = " ".join(text.encode(errors="replace").decode().split())
    return "".join(c for c in line[:longest] if c.isprintable())
