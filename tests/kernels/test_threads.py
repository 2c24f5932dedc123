"""Work is dealt out to threads such that every index is worked on once, whoever asks."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit.kernels import threads
from fedmerit.kernels.threads import deal

pytestmark = pytest.mark.kernel


@pytest.fixture(autouse=True, scope="module")
def four_threads():
    """More than there may be cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "threads", lambda: 4)
        threads._pool.cache_clear()
        yield
    threads._pool.cache_clear()


def visits(count, least=1):
    seen = np.zeros(count, dtype=np.int64)

    def work(begin, end):
        seen[begin:end] += 1

    deal(work, count, least)
    return seen


@given(st.integers(0, 100), st.integers(1, 40))
def test_every_index_is_worked_on_once(count, least):
    assert (visits(count, least) == 1).all()


def test_pieces_are_no_smaller_than_what_is_worth_a_thread():
    sizes = []
    deal(lambda begin, end: sizes.append(end - begin), 100, least=30)
    assert sum(sizes) == 100
    assert min(sizes) >= 30


def test_several_threads_work_at_once():
    together = threading.Barrier(2)  # broken, with an error, if one thread did both
    deal(lambda _begin, _end: together.wait(timeout=60), 2)


def test_many_callers_share_the_threads():
    with ThreadPoolExecutor(8) as callers:
        assert all((seen == 1).all() for seen in callers.map(visits, [50] * 40))


def test_an_error_in_a_piece_reaches_the_caller():
    def work(begin, end):
        if begin <= 7 < end:
            raise MemoryError("piece 7")

    with pytest.raises(MemoryError, match="piece 7"):
        deal(work, 20)
    assert (visits(20) == 1).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_has_threads_of_its_own():
    visits(20)
    child = os.fork()
    if child == 0:
        os._exit(0 if (visits(20) == 1).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
