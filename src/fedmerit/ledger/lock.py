"""One writer at a time, by a lock of the operating system that a crash cannot leave behind."""

import os
import sys
import threading
from pathlib import Path
from typing import BinaryIO

from fedmerit.errors import LedgerBusyError, LedgerError

# POSIX locks belong to the process: a second writer inside it would be let through, and closing any
# handle of the file would release the lock. So the process keeps its own list of what it holds.
_HELD: dict[str, int] = {}
_HELD_GUARD = threading.Lock()


class WriterLock:
    """Exclusive right to write to the ledger at `path`, held in a small file beside it.

    It belongs to the process that took it: not to its forks, and it ends with the process.
    """

    def __init__(self, path: Path) -> None:
        self._key = str(path.resolve())
        with _HELD_GUARD:
            if _HELD.get(self._key) == os.getpid():
                raise LedgerBusyError(
                    f"one writer at a time: {path} is already open for writing in this process"
                )
            self._file = _take(path)
            _HELD[self._key] = os.getpid()

    def release(self) -> None:
        """Let the next writer in; the file stays, so that no two writers lock different ones."""
        with _HELD_GUARD:
            if _HELD.get(self._key) == os.getpid():
                del _HELD[self._key]
            self._file.close()


def _take(path: Path) -> BinaryIO:
    lock_path = path.with_name(path.name + ".lock")
    try:
        # Unbuffered and kept open: the lock lives as long as this handle.
        file = open(lock_path, "a+b", buffering=0)  # noqa: SIM115, PTH123
    except OSError as error:
        raise LedgerError(f"cannot open {lock_path} for writing: {error.strerror}") from error
    try:
        _lock(file)
    except OSError:
        file.seek(0)
        holder = file.read(20).decode("ascii", "replace").strip() or "unknown"
        file.close()
        raise LedgerBusyError(
            f"one writer at a time: {path} is being written by process {holder}"
        ) from None
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
