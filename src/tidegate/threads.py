"""A pool of daemon threads for blocking work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonPool(Executor):
    """Starts threads on demand. A hanging thread does not keep the process from exiting.

    A thread that was idle for *idle* seconds ends, so a rare peak does not leave all its threads behind.
    """

    def __init__(self, limit: int, name: str, idle: float = 60.0) -> None:
        self._limit, self._name, self._idle = limit, name, idle
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0  # waiting threads minus waiting work
        self._made = 0
        self._ended = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._ended:  # no thread would run it, and the caller would wait for ever
                raise RuntimeError(f"the threads of {self._name} have ended")
            self._work.put((future, lambda: fn(*args, **kwargs)))
            self._free -= 1
            if self._free < 0 and self._made < self._limit:
                self._made += 1
                self._free += 1
                threading.Thread(target=self._run, name=f"{self._name}-{self._made}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the idle threads. A busy thread ends after its work. Never waits."""
        with self._lock:
            self._ended = True
            for _ in range(self._made):
                self._work.put(None)

    def _run(self) -> None:
        while (item := self._next()) is not None:
            future, work = item
            if future.set_running_or_notify_cancel():
                try:
                    result = work()
                except StopIteration as error:  # a coroutine cannot receive it, and would wait for ever
                    future.set_exception(RuntimeError(f"{error!r} was raised in a thread"))
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del item, future, work  # frees their objects before the next work arrives
            with self._lock:
                self._free += 1

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Returns the next work, or None if this thread should end."""
        while True:
            with contextlib.suppress(Empty):
                return self._work.get(timeout=self._idle)
            with self._lock:
                if self._work.empty():  # `submit` holds the lock, so no work is missed
                    self._made -= 1
                    self._free -= 1
                    return None
