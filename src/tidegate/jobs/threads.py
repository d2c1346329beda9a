"""Where blocking work of a worker goes: threads, or right here when everything runs on one virtual loop."""

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
