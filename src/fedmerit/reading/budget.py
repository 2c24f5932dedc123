"""How much may be read, in bytes and in number: asked for before anything is built."""

from collections.abc import Sequence
from pathlib import Path

from fedmerit.errors import DataError

GIGABYTE = 10**9
DEFAULT_LIMIT = 4 * GIGABYTE
# A client costs more than its bytes: a name, a row in every table.
MOST_CLIENTS = 100_000
MOST_ARRAYS = 1_000_000
MOST_LETTERS = 10_000  # in a name
_BYTES_PER_PAIR = 40  # two indices, and three numbers


class Budget:
    """Bytes that may still be allocated for arrays.

    A file can promise more than it holds (a compressed archive, a tensor that repeats one number),
    so every reader says what an array will take and is stopped before it is there.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = self._left = limit

    def take(self, size: int, path: Path) -> None:
        """Set `size` bytes aside for an array of `path`."""
        if size < 0:
            raise DataError(f"arrays of {path} must not have a negative size, got {size} bytes")
        if size > self._left:
            raise DataError(
                f"arrays must take at most {self._limit / GIGABYTE:g} GB together, got more "
                f"in {path}; raise the limit if that is meant"
            )
        self._left -= size


def check_pairs(clients: int, limit: int, path: Path) -> None:
    """Refuse clients whose comparison, each with each, takes more bytes than may be used."""
    needed = _BYTES_PER_PAIR * clients**2
    if needed > limit:
        raise DataError(
            f"comparing the {clients} clients of {path} in pairs must take at most "
            f"{limit / GIGABYTE:g} GB, got {needed / GIGABYTE:.3g} GB; raise the limit if that is "
            "meant"
        )


def check_number_of(what: str, count: int, most: int, path: Path) -> None:
    """Refuse more things than there is room for."""
    if count > most:
        raise DataError(f"{path} must hold at most {most} {what}, got {count}")


def check_names(names: Sequence[str], path: Path) -> tuple[str, ...]:
    """Return names that can be written down: not endless, and valid Unicode."""
    for name in names:
        if len(name) > MOST_LETTERS:
            raise DataError(
                f"names in {path} must have at most {MOST_LETTERS} letters, got {len(name)}"
            )
        try:
            name.encode()
        except UnicodeEncodeError:
            raise DataError(f"names in {path} must be valid Unicode, got {name!r}") from None
    return tuple(names)
