"""Wakes a worker when there is something to do: from this process at once, from others as the store can tell."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable


class WakeSignal:
    """An event that any thread may set. It tells a poke (something ended here) from news (something may be there)."""

    def __init__(self, watch: Callable[[Callable[[], None], threading.Event], None] | None = None) -> None:
        self._watch = watch  # blocks in a thread of its own, and calls back when another process wrote something
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()
        self._news = False
        self._asked = False  # the loop was asked to look, and has not yet

    @contextlib.asynccontextmanager
    async def listening(self, *, others: bool = True) -> AsyncIterator[None]:
        """Hears the news of this process, and of *others*, while the block runs."""
        self._asked = False
        self._loop = loop = asyncio.get_running_loop()
        stop = threading.Event()
        thread = None
        if self._watch is not None and others:
            thread = threading.Thread(
                target=self._watch, args=(self.signal_new_work, stop), name="tidegate-wake", daemon=True
            )
            thread.start()
        try:
            yield
        finally:
            stop.set()
            self._loop = None
            if thread is not None:
                await loop.run_in_executor(None, thread.join, 2)

    def signal_finished(self) -> None:
        """Something ended on the loop; from its own thread."""
        self._event.set()

    def signal_new_work(self) -> None:
        """There may be something new to do; from any thread."""
        loop = self._loop
        if loop is None or self._asked:
            return
        self._asked = True
        with contextlib.suppress(RuntimeError):  # the loop was closed a moment ago
            loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        self._asked = False
        self._news = True
        self._event.set()

    def take(self) -> bool:
        """Whether there was news; from now on there is none."""
        was, self._news = self._news, False
        self._event.clear()
        return was

    async def wait(self, timeout: float | None) -> None:
        """Until it is set, or so many seconds."""
        if self._event.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
