"""Executors for the blocking work of a worker: threads, or inline for virtual time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tidegate.jobs.outcome import from_child
from tidegate.threads import DaemonPool

if TYPE_CHECKING:
    from tidegate.children.pool import Children
    from tidegate.jobs.context import Context
    from tidegate.jobs.function import JobKind

T = TypeVar("T")


class Executors(Protocol):
    """Runs blocking functions for coroutines."""

    async def store(self, work: Callable[[], T]) -> T:
        """Runs database work."""

    async def beat(self, work: Callable[[], T]) -> T:
        """Runs a heartbeat, which must not wait for other work, because leases end meanwhile."""

    async def handler(self, work: Callable[[], T]) -> T:
        """Runs a synchronous handler."""

    async def process(self, kind: JobKind, args: str, context: Context) -> Any:
        """Runs a handler in a child process. *args* are JSON. Cancelling it kills the child."""

    def close(self) -> None: ...


class ThreadExecutors:
    """Two threads for the database, one for the heartbeat, and one per handler."""

    def __init__(self, handlers: int) -> None:
        self._store = DaemonPool(2, "tidegate-store")
        self._beat = DaemonPool(1, "tidegate-beat")
        self._handlers = DaemonPool(max(1, handlers), "tidegate-handler")
        self._limit = max(1, handlers)
        self._children: Children | None = None  # created on first use

    async def store(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store, work)

    async def beat(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._beat, work)

    async def handler(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._handlers, work)

    async def process(self, kind: JobKind, args: str, context: Context) -> Any:
        from tidegate.children.pool import Children
        from tidegate.jobs.attempt import call_of, result_of

        self._children = self._children or Children(self._limit)
        answer = await self._children.run(call_of(kind, args, context))
        return result_of(answer, context._job)

    def close(self) -> None:
        if self._children is not None:
            self._children.close()
        for pool in (self._store, self._beat, self._handlers):
            pool.shutdown()


class InlineExecutors:
    """Runs everything on the loop, for simulations that a seed must reproduce exactly."""

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
