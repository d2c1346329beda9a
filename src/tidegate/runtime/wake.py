"""Wakes a worker when there is something to do: from this process at once, from others as the store can tell."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator


class Wake:
    """An event that any thread may set."""

    def __init__(self, watch: Callable[[Callable[[], None], threading.Event], None] | None = None) -> None:
        self._watch = watch  # blocks in a thread of its own, and calls back when another process wrote something
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()

    @contextlib.contextmanager
    def listening(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        self._loop = loop
        stop = threading.Event()
        thread = None
        if self._watch is not None:
            thread = threading.Thread(
                target=self._watch, args=(self.set_from_thread, stop), name="tidegate-wake", daemon=True
            )
            thread.start()
        try:
            yield
        finally:
            stop.set()
            self._loop = None
            if thread is not None:
                thread.join(timeout=2)

    def set(self) -> None:
        """From the loop's own thread."""
        self._event.set()

    def set_from_thread(self) -> None:
        loop = self._loop
        if loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed a moment ago
            loop.call_soon_threadsafe(self._event.set)

    def take(self) -> bool:
        """Whether it was set; from now on it is not."""
        was = self._event.is_set()
        self._event.clear()
        return was

    async def wait(self, timeout: float | None) -> None:
        """Until it is set, or so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
