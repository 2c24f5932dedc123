"""The work of a kernel, dealt out to threads: compiled code lets go of Python's lock.

Loops that Numba runs in parallel by itself take several times as long to compile. Here pieces of
the work are taken by whichever thread is free, so a kernel must compute every index by itself:
then it does not matter who computes it, and results are the same bits for any number of threads.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numba.core import config
from numpy.typing import NDArray

# More pieces than threads: one that is held up takes fewer of them.
_PIECES = 4
_Value = TypeVar("_Value", bound=np.generic)


def threads() -> int:
    """Return how many threads work: ``NUMBA_NUM_THREADS``, which is the number of cores."""
    return int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def read_only(array: NDArray[_Value]) -> NDArray[_Value]:
    """Return a view that cannot be written.

    For arrays that can be written and for those that cannot Numba compiles a kernel twice: what
    comes from outside is given to kernels in one form.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def deal(work: Callable[[int, int], object], count: int, least: int = 1) -> None:
    """Call ``work(begin, end)`` for pieces of ``range(count)`` until all is done.

    `least` is how many make a piece that is worth waking a thread for.
    """
    pieces = min(count // least, _PIECES * threads())
    if pieces < 2 or threads() < 2:
        if count:
            work(0, count)
        return
    bounds = [count * n // pieces for n in range(pieces + 1)]
    todo = deque(pairwise(bounds))

    def take() -> None:
        while todo:
            try:
                begin, end = todo.popleft()
            except IndexError:  # another thread was faster
                return
            work(begin, end)

    # What the caller set for itself, such as which errors of numbers it ignores, holds for all.
    others = [_pool().submit(copy_context().run, take) for _ in range(min(threads(), pieces) - 1)]
    try:
        take()
    finally:
        todo.clear()
        for other in others:
            if not other.cancel():
                other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads(), thread_name_prefix="fedmerit-kernels")


if hasattr(os, "register_at_fork"):
    # Threads stay behind when a process is forked: the child starts its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)
