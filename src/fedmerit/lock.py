"""One writer at a time, by a lock of the operating system that a crash cannot leave behind."""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from fedmerit.errors import FedMeritError

# POSIX locks belong to the process: a second writer inside it would be let through, and closing any
# handle of the file would release the lock. So the process keeps its own list of what it holds.
_HELD: dict[str, int] = {}
_HELD_GUARD = threading.Lock()


class WriterLock:
    """Exclusive right to write to `path`, held in a small file beside it.

    It belongs to the process that took it: not to its forks, and it ends with the process.

    Parameters
    ----------
    path : Path
    busy : type of error
        Raised if another writer holds the lock.
    failed : type of error
        Raised if the small file cannot be written.
    """

    def __init__(
        self, path: Path, *, busy: type[FedMeritError], failed: type[FedMeritError]
    ) -> None:
        self._key = str(path.resolve())
        with _HELD_GUARD:
            if _HELD.get(self._key) == os.getpid():
                raise busy(
                    f"one writer at a time: {path} is already open for writing in this process"
                )
            self._file = _take(path, busy, failed)
            _HELD[self._key] = os.getpid()

    def release(self) -> None:
        """Let the next writer in; the file stays, so that no two writers lock different ones."""
        with _HELD_GUARD:
            if _HELD.get(self._key) == os.getpid():
                del _HELD[self._key]
            self._file.close()


def _take(path: Path, busy: type[FedMeritError], failed: type[FedMeritError]) -> BinaryIO:
    lock_path = path.with_name(path.name + ".lock")
    try:
        # Unbuffered and kept open: the lock lives as long as this handle.
        file = open(lock_path, "a+b", buffering=0)  # noqa: SIM115, PTH123
    except OSError as error:
        raise failed(f"cannot open {lock_path} for writing: {error.strerror}") from error
    try:
        _lock(file)
    except OSError:
        file.seek(0)
        holder = file.read(20).decode("ascii", "replace").strip() or "unknown"
        file.close()
        raise busy(f"one writer at a time: {path} is being written by process {holder}") from None
    with suppress(OSError):  # who it is helps others; on a full disk the lock holds without
        file.truncate(0)
        file.write(b"%d\n" % os.getpid())
    return file


if sys.platform == "win32":
    import msvcrt

    def _lock(file: BinaryIO) -> None:
        file.seek(1 << 30)  # a byte far behind the text, which stays readable for others
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: BinaryIO) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
