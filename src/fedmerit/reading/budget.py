"""How many bytes may be read: asked for before anything is allocated."""

from pathlib import Path

from fedmerit.errors import DataError

GIGABYTE = 10**9
DEFAULT_LIMIT = 4 * GIGABYTE


class Budget:
    """Bytes that may still be allocated for arrays.

    A file can promise more than it holds (a compressed archive, a tensor that repeats one number),
    so every reader says what an array will take and is stopped before it is there.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = self._left = limit

    def take(self, size: int, path: Path) -> None:
        """Set `size` bytes aside for an array of `path`."""
        if size > self._left:
            raise DataError(
                f"arrays must take at most {self._limit / GIGABYTE:g} GB together, got more "
                f"in {path}; raise the limit if that is meant"
            )
        self._left -= size
