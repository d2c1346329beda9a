"""The workers of a server, on a thread and a loop of their own: a handler that blocks its loop stops no page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from tidegate.core.logs import logger
from tidegate.runtime.stopping import run_loop

_log = logger("tidegate.server")

_RESTART_SECONDS = 5.0  # seconds before work that broke is begun again


class WorkerThread:
    """Runs *work*, which ends when its event is set, and begins it again if it breaks."""

    def __init__(
        self, work: Callable[[asyncio.Event], Awaitable[object]], *, restart_seconds: float = _RESTART_SECONDS
    ) -> None:
        self._work = work
        self._restart_seconds = restart_seconds
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread = threading.Thread(target=self._run, name="tidegate-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self) -> None:
        """Asks it to end; returns at once."""
        self._asked.set()
        with self._lock:
            if self._stop is not None:
                loop, stop = self._stop
                loop.call_soon_threadsafe(stop.set)

    def join(self, seconds: float) -> bool:
        """Whether it has ended within that time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._asked.is_set():
            try:
                run_loop(self._main())
            except BaseException:  # a cancellation or an exit that came through must not leave a server without workers
                _log.exception("engine_broke again_in=%s", self._restart_seconds)
                self._asked.wait(self._restart_seconds)

    async def _main(self) -> None:
        stop = asyncio.Event()
        with self._lock:
            self._stop = asyncio.get_running_loop(), stop
        try:
            if not self._asked.is_set():
                await self._work(stop)
        finally:
            with self._lock:  # nobody may call a loop that is about to be closed
                self._stop = None
