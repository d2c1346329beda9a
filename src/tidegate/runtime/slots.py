"""So many attempts at a time. What was claimed ahead waits its turn; no task is made per job."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.runtime.job_attempts import Attempt

_SHORT_JOB_SECONDS = 0.075  # seconds: only jobs shorter than this are worth claiming ahead
_SHORT_JOBS_NEEDED = 8  # so many of them, before it is believed


def is_current(task: asyncio.Task[None] | None) -> bool:
    """Whether *task* runs at this moment; not when its coroutine is closed because the loop is gone."""
    try:
        return task is asyncio.current_task()
    except RuntimeError:
        return False


class ExecutorSlots:
    """Runs attempts, at most *most* at once."""

    def __init__(self, limit: int, run: Callable[[Attempt], Awaitable[None]]) -> None:
        self._limit, self._run = limit, run
        self._buffer: deque[Attempt] = deque()
        self._idle: deque[asyncio.Future[Attempt]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._quick = 0
        self._closed = False
        self._failure: asyncio.Future[None] | None = None

    @property
    def prefetch_limit(self) -> int:
        """How many jobs may be claimed beyond those that can run: none where they would wait behind slow ones."""
        return self._limit if self._quick >= _SHORT_JOBS_NEEDED else 0

    @property
    def fed(self) -> bool:
        """Whether the next slot that becomes free has something to do."""
        return bool(self._buffer)

    def took(self, seconds: float) -> None:
        """How long an attempt took."""
        self._quick = self._quick + 1 if seconds < _SHORT_JOB_SECONDS else 0

    def put(self, attempt: Attempt) -> None:
        while self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(attempt)
                return
        self._buffer.append(attempt)
        if len(self._tasks) < self._limit:
            task = asyncio.create_task(self._slot())
            self._tasks.add(task)
            task.add_done_callback(self._gone)

    def unstarted(self, claimed_before: float | None = None) -> list[Attempt]:
        """Takes out what waits for a slot; with a moment, only what was claimed before it, which is then too much."""
        out = [each for each in self._buffer if claimed_before is None or each.claimed < claimed_before]
        for each in out:
            self._buffer.remove(each)
            self._quick = 0
        return out

    async def broken(self) -> None:
        """For ever; raises when a slot breaks, which would leave its job under a lease that is renewed and renewed."""
        self._failure = asyncio.get_running_loop().create_future()
        await self._failure

    async def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        # A handler that swallows its cancellation must not keep the worker from ending.
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=0.1)

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _slot(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        while not self._closed:
            if self._buffer:
                attempt = self._buffer.popleft()
            else:
                waiting: asyncio.Future[Attempt] = loop.create_future()
                self._idle.append(waiting)
                attempt = await waiting
            try:
                await self._run(attempt)
            except GeneratorExit:
                if not is_current(task):
                    raise
