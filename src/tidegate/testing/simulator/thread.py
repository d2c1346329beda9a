"""An event loop in a thread of its own, which nothing outlives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class LoopThread:
    def __init__(self, name: str) -> None:
        # The selector's, on every system: a door watches its socket by itself.
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def here(self) -> bool:
        """Whether this is that thread."""
        return threading.current_thread() is self._thread

    def do(self, what: Callable[[], T]) -> T:
        """What *what* returns or raises, called in the thread of the loop."""
        if self.here:
            return what()
        done: Future[T] = Future()

        async def call() -> None:
            try:
                done.set_result(what())
            except BaseException as error:
                done.set_exception(error)

        asyncio.run_coroutine_threadsafe(call(), self._loop)
        return done.result()

    def stop(self) -> None:
        """Ends the thread; every task in it is cancelled and waited for."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._last())
            self._loop.close()

    async def _last(self) -> None:
        own = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # connections that were dropped close their sockets in the next turn
