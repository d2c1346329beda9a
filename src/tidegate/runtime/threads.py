"""Where blocking work goes: threads, or right here when everything runs on one virtual loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Threads(Protocol):
    """Runs blocking functions for a coroutine that waits for them."""

    async def store(self, work: Callable[[], T]) -> T:
        """Work at the database."""

    async def handler(self, work: Callable[[], T]) -> T:
        """A `def` handler of the user's."""

    def close(self) -> None: ...


class RealThreads:
    """Two threads for the database, as many as may be needed for handlers."""

    def __init__(self, handlers: int) -> None:
        self._store = ThreadPoolExecutor(2, "tidegate-store")
        self._handlers = ThreadPoolExecutor(max(1, handlers), "tidegate-handler")

    async def store(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store, work)

    async def handler(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._handlers, work)

    def close(self) -> None:
        # Not waiting: a handler that hangs must not keep the process from ending.
        self._handlers.shutdown(wait=False, cancel_futures=True)
        self._store.shutdown(wait=True)


class Inline:
    """No threads: for simulation, where one seed must repeat a run exactly."""

    async def store(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return work()

    async def handler(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return work()

    def close(self) -> None:
        """Nothing to end."""
