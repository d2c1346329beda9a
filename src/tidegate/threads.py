"""Where blocking work goes: threads, or right here when everything runs on one virtual loop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonPool(Executor):
    """Threads that are made when they are needed, and that do not keep the process from ending when they hang.

    One that has had nothing to do for *idle* seconds ends: a rare rush must not leave all its threads for good.
    """

    def __init__(self, limit: int, name: str, idle: float = 60.0) -> None:
        self._limit, self._name, self._idle = limit, name, idle
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0  # threads that wait for work, less the work that waits for them
        self._made = 0
        self._ended = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._ended:  # nobody would do it, and whoever waits for it would wait for ever
                raise RuntimeError(f"the threads of {self._name} have ended")
            self._work.put((future, lambda: fn(*args, **kwargs)))
            self._free -= 1
            if self._free < 0 and self._made < self._limit:
                self._made += 1
                self._free += 1
                threading.Thread(target=self._run, name=f"{self._name}-{self._made}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the threads that wait for work; one that is at work ends when it is done, and nobody waits for it."""
        with self._lock:
            self._ended = True
            for _ in range(self._made):
                self._work.put(None)

    def _run(self) -> None:
        while (asked := self._next()) is not None:
            future, work = asked
            if future.set_running_or_notify_cancel():
                try:
                    result = work()
                except StopIteration as error:  # no coroutine can wait for one: it would never hear of it
                    future.set_exception(RuntimeError(f"{error!r} was raised in a thread"))
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del asked, future, work  # what they hold must not live until the next work comes
            with self._lock:
                self._free += 1

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """What is to be done next; None when this thread is to end."""
        while True:
            with contextlib.suppress(Empty):
                return self._work.get(timeout=self._idle)
            with self._lock:
                if self._work.empty():  # and who puts something in has the lock
                    self._made -= 1
                    self._free -= 1
                    return None
