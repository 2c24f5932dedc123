"""Files that appear whole or not at all, and are there after the power went off."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# What systems say that cannot put the names in a folder on the disk by themselves.
_UNABLE = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EISDIR})
# What cannot be made again: the application id of a ledger, at its place in the file, and how
# others begin.
_LEDGER_MARK, _LEDGER_MARK_AT = b"fmrt", 68
_BESIDE_LEDGER = ("-wal", "-shm", "-journal", ".lock")
_BEGINNINGS = {
    b"-----BEGIN PRIVATE KEY-----": "a private key",
    b'{"at": "': "a log of heads",
}


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Yield a path to write to; the file there takes the place of `target` when all went well.

    Whatever stops the writing, an error or Ctrl-C, the old file stays as it was and nothing is left
    behind. When this returns the new file is on the disk, content and name: whatever is written
    after it, a round in a ledger or a transfer at a bank, never outlives it. The path keeps the
    ending of `target`, which some writers look at, and nobody can know it before: a link that waits
    there would lead elsewhere.

    Raises
    ------
    FileExistsError
        `target` is a ledger or belongs to one, or is a private key or a log of heads: nothing
        else may take its place.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _require_replaceable(target)
    partial = target.with_name(f".{target.stem}.{secrets.token_hex(8)}.part{target.suffix}")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(target)
        names_to_disk(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def _require_replaceable(target: Path) -> None:
    start = _start(target)
    what = "a ledger" if _is_ledger(start) else None
    what = next((name for mark, name in _BEGINNINGS.items() if start.startswith(mark)), what)
    for ending in _BESIDE_LEDGER:
        of = target.name.removesuffix(ending)
        if of not in ("", target.name) and _is_ledger(_start(target.with_name(of))):
            what = f"a file of the ledger {of}"
    if what is not None:
        raise FileExistsError(errno.EEXIST, f"it is {what}, which nothing may take the place of")


def _start(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(_LEDGER_MARK_AT + len(_LEDGER_MARK))


def _is_ledger(start: bytes) -> bool:
    return start[_LEDGER_MARK_AT:] == _LEDGER_MARK


def is_folder(path: Path) -> bool:
    """Return whether a folder is there; what nobody may look at, or has no such name, is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def read_at_most(path: Path, most: int) -> bytes:
    """Return the content of a file, which must be a file and have at most `most` bytes.

    Raises
    ------
    OSError
        It is something else, such as a device without an end, or longer.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it must be a file")
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it must have at most {most} bytes")
    return content


def names_to_disk(folder: Path) -> None:
    """Put the names of a folder's files on the disk; where a system cannot, they are as before."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        if error.errno in _UNABLE:
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
    finally:
        os.close(handle)
