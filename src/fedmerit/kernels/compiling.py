"""When and where kernels are compiled: once per machine, said in the log, kept on disk.

Numba keeps them in ``NUMBA_CACHE_DIR``, or beside the source, or in the user's cache folder: the
first that can be written. Where none can, it refuses to import a kernel at all.
"""

import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config, event

NOTICE = "compiling kernels, once per machine ('fedmerit warm-up' does it ahead)"
_COMPILE = "numba:compile"


class _Listener(event.Listener):
    """Is told before one of our kernels is compiled; what is read from disk is not compiled."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith(__package__):
            self._tell(function.__name__)

    def on_end(self, event: Any) -> None:
        """Do nothing."""


class _Notice(_Listener):
    """Says once per process why the first call takes so long."""

    def __init__(self) -> None:
        self.said = False
        super().__init__(self._say)

    def _say(self, _: str) -> None:
        if not self.said:
            self.said = True
            # A warning, so that it is seen where nobody set up a log.
            logging.getLogger("fedmerit").warning(NOTICE)


_notice = _Notice()


@contextmanager
def told(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell the name of every kernel before it is compiled, instead of the notice."""
    before, _notice.said = _notice.said, True
    try:
        with event.install_listener(_COMPILE, _Listener(tell)):
            yield
    finally:
        _notice.said = before


def prepare() -> None:
    """Find a place for compiled kernels, and say so when the first is made."""
    try:
        kept_in()
    except RuntimeError:
        config.CACHE_DIR = str(_own_folder())  # type: ignore[attr-defined]
    event.register(_COMPILE, _notice)  # type: ignore[no-untyped-call]


def kept_in() -> str | None:
    """Return the folder in which compiled kernels are kept; None with the compiler off.

    Raises
    ------
    RuntimeError
        None can be written.
    """
    trial = njit(cache=True)(_trial)
    return None if trial is _trial else str(trial.stats.cache_path)


def _trial() -> int:
    return 0


def _own_folder() -> Path:
    """Return a folder for temporary files that nobody else can write: what is in it is executed."""
    try:
        if hasattr(os, "getuid"):
            folder = Path(tempfile.gettempdir()) / f"fedmerit-kernels-{os.getuid()}"
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
            if (
                stat.S_ISDIR(found.st_mode)
                and found.st_uid == os.getuid()
                and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            ):
                return folder
        return Path(tempfile.mkdtemp(prefix="fedmerit-kernels-"))
    except OSError as error:
        raise RuntimeError(
            f"compiled kernels need a folder that can be written, set NUMBA_CACHE_DIR: {error}"
        ) from error
