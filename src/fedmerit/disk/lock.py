"""One writer at a time, by a lock of the operating system that a crash cannot leave behind."""

import contextlib
import os
import stat
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING

from fedmerit.errors import FedMeritError

if TYPE_CHECKING:
    Identity = tuple[int, int]

# What this process holds, by the file itself: whatever names lead to it, it is one file.
_HELD: dict["Identity", "WriterLock"] = {}
_HELD_GUARD = threading.RLock()


class WriterLock:
    """Exclusive right to write to `path`, a file or a folder, by whatever name it is reached.

    The file itself is locked, not its name: a link to it, or a small file that somebody deletes,
    lets nobody else in. A small file beside it, ``.lock``, only tells others who holds the lock.
    The lock belongs to the process that took it: not to its forks, and it ends with the process.

    Parameters
    ----------
    path : Path
        A file is created if there is none.
    busy : type of error
        Raised if another writer holds the lock.
    failed : type of error
        Raised if the file cannot be opened.

    Attributes
    ----------
    path : Path
        The file behind all links.
    """

    def __init__(
        self, path: Path, *, busy: type[FedMeritError], failed: type[FedMeritError]
    ) -> None:
        with _HELD_GUARD:
            try:
                self.path = path.resolve()
                self._handle = self._take(path, busy)
            except (OSError, RuntimeError, ValueError) as error:  # links in a circle, no names
                reason = getattr(error, "strerror", None) or error
                raise failed(f"cannot open {path} for writing: {reason}") from error
            self.identity = identity_of(self._handle)
            self._process = os.getpid()
            _HELD[self.identity] = self
        flags = os.O_RDWR | os.O_CREAT
        # Who it is helps others; the lock holds without.
        with contextlib.suppress(OSError), _open_note(self._note, flags) as note:
            note.truncate(0)
            note.write(b"%d\n" % self._process)

    @property
    def _note(self) -> Path:
        inside = self.path.is_dir()
        return self.path / ".lock" if inside else self.path.with_name(self.path.name + ".lock")

    def release(self) -> None:
        """Let the next writer in; releasing twice does no harm."""
        with _HELD_GUARD:
            if _HELD.get(self.identity) is self:
                del _HELD[self.identity]
                _unlock(self._handle)
                os.close(self._handle)

    def _take(self, path: Path, busy: type[FedMeritError]) -> int:
        while True:
            folder = self.path.is_dir()
            locked = self._note if folder and not _FOLDERS_OPEN else self.path
            # Looked up first: to open and close a file that SQLite has open would drop its locks.
            if locked.exists() and identity_of(locked) in _HELD:
                raise busy(
                    f"one writer at a time: {path} is already open for writing in this process"
                )
            flags = os.O_RDONLY if locked.is_dir() else os.O_RDWR | os.O_CREAT
            handle = os.open(locked, flags | _CLOSE_ON_EXEC, 0o666)
            try:
                _lock(handle)
            except OSError:
                os.close(handle)
                raise busy(
                    f"one writer at a time: {path} is being written by process {self._holder()}"
                ) from None
            if locked.exists() and identity_of(locked) == identity_of(handle):
                return handle
            os.close(handle)  # another file took the name in between

    def _holder(self) -> str:
        try:
            with _open_note(self._note, os.O_RDONLY) as note:
                return note.read(_MOST_DIGITS).decode("ascii", "replace").strip() or "unknown"
        except OSError:
            return "unknown"


def _open_note(path: Path, flags: int) -> IO[bytes]:
    """Open the note beside a file, but nothing that somebody put in its place.

    A link would lead to a file of somebody else, and a pipe would never answer.
    """
    handle = os.open(path, flags | _CLOSE_ON_EXEC | _AS_IT_IS, 0o666)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise FileExistsError(f"{path} is not a note of ours")
    return os.fdopen(handle, "rb" if flags == os.O_RDONLY else "r+b")


def identity_of(file: Path | int) -> "Identity":
    """Return what tells a file from all others on this machine, whatever its names are."""
    found = os.fstat(file) if isinstance(file, int) else file.stat()
    return found.st_dev, found.st_ino


def _forget_in_child() -> None:
    """Close what a fork inherited: the lock must end with the process that took it."""
    for lock in _HELD.values():
        with contextlib.suppress(OSError):
            os.close(lock._handle)
    _HELD.clear()


_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_MOST_DIGITS = 20
_FOLDERS_OPEN = sys.platform != "win32"  # where a folder cannot be opened, a file in it stands in

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 40  # a byte far behind any content, which stays readable for others

    def _lock(handle: int) -> None:
        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

    def _unlock(handle: int) -> None:
        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    os.register_at_fork(after_in_child=_forget_in_child)

    def _lock(handle: int) -> None:
        # Not lockf: its locks share the space of SQLite's, and any close of the file drops them.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)
