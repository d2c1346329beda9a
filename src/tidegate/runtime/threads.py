"""Where blocking work goes: threads, or right here when everything runs on one virtual loop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tidegate.machine.lifecycle import from_child

if TYPE_CHECKING:
    from tidegate.runtime.children import Children
    from tidegate.runtime.context import Context
    from tidegate.runtime.job_kinds import JobKind

T = TypeVar("T")


class Executors(Protocol):
    """Runs blocking functions for a coroutine that waits for them."""

    async def store(self, work: Callable[[], T]) -> T:
        """Work at the database."""

    async def beat(self, work: Callable[[], T]) -> T:
        """The same, for what must not wait behind other work: leases end while it does."""

    async def handler(self, work: Callable[[], T]) -> T:
        """A `def` handler of the user's."""

    async def process(self, kind: JobKind, args: str, context: Context) -> Any:
        """A handler that runs in a child process; *args* are JSON. Cancelling it kills the child."""

    def close(self) -> None: ...


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


class ThreadExecutors:
    """A few threads for the database, one for the heartbeat, as many as may be needed for handlers."""

    def __init__(self, handlers: int) -> None:
        self._store = DaemonPool(2, "tidegate-store")
        self._beat = DaemonPool(1, "tidegate-beat")
        self._handlers = DaemonPool(max(1, handlers), "tidegate-handler")
        self._limit = max(1, handlers)
        self._children: Children | None = None  # made for the first who needs them

    async def store(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store, work)

    async def beat(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._beat, work)

    async def handler(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._handlers, work)

    async def process(self, kind: JobKind, args: str, context: Context) -> Any:
        from tidegate.runtime.child_jobs import call_of, result_of
        from tidegate.runtime.children import Children

        self._children = self._children or Children(self._limit)
        answer = await self._children.run(call_of(kind, args, context))
        return result_of(answer, context._job)

    def close(self) -> None:
        if self._children is not None:
            self._children.close()
        for pool in (self._store, self._beat, self._handlers):
            pool.shutdown()


class InlineExecutors:
    """No threads: for simulation, where one seed must repeat a run exactly."""

    async def store(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return work()

    async def beat(self, work: Callable[[], T]) -> T:
        return await self.store(work)

    async def handler(self, work: Callable[[], T]) -> T:
        return await self.store(work)

    async def process(self, kind: JobKind, args: str, context: Context) -> Any:
        bound = kind.parameters.decode(args)
        result = await self.store(lambda: kind.parameters.call(kind.handler, bound, context))
        return from_child(await result if inspect.isawaitable(result) else result)

    def close(self) -> None:
        """Nothing to end."""
