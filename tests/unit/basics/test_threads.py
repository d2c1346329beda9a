"""Threads for what blocks: made when they are needed, and gone when they are not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tidegate.threads import DaemonPool

_NAME = "test-of-threads"


def there() -> int:
    return sum(each.name.startswith(_NAME) for each in threading.enumerate())


def eventually(true: Callable[[], bool], within: float = 60.0) -> bool:
    end = time.monotonic() + within
    while not true() and time.monotonic() < end:
        time.sleep(0.005)
    return true()


def at_once(pool: DaemonPool, n: int) -> None:
    """So many pieces of work, each of which waits for all the others."""
    together = threading.Barrier(n)
    for each in [pool.submit(together.wait, 60) for _ in range(n)]:
        each.result(60)


def test_threads_that_nobody_needs_any_more_end_and_others_are_made_when_there_is_work_again() -> None:
    pool = DaemonPool(8, _NAME, idle=0.05)

    at_once(pool, 8)
    assert eventually(lambda: there() == 0)
    at_once(pool, 8)
    assert [pool.submit(lambda: 7).result(60) for _ in range(100)] == [7] * 100

    pool.shutdown()
    assert eventually(lambda: there() == 0)


def test_who_brings_work_after_the_end_is_told_and_does_not_wait_for_ever() -> None:
    pool = DaemonPool(2, _NAME)
    assert pool.submit(lambda: 7).result(60) == 7
    pool.shutdown()
    assert eventually(lambda: there() == 0)

    with pytest.raises(RuntimeError, match="ended"):
        pool.submit(lambda: 7)


def test_no_more_is_done_at_a_time_than_allowed_also_while_threads_end_and_others_are_made() -> None:
    pool, lock = DaemonPool(2, _NAME, idle=0.0005), threading.Lock()
    now, most = 0, 0

    def work() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.0005)
        with lock:
            now -= 1

    for _ in range(200):
        for each in [pool.submit(work) for _ in range(4)]:
            each.result(60)

    assert most == 2
    pool.shutdown()
    assert eventually(lambda: there() == 0)
