"""Tasks of a worker's loop that the handler of one job cannot cancel for the others.

Programs copy the end of `asyncio.run`: they cancel `asyncio.all_tasks()`. In a handler this would cancel the worker and
all its other jobs. So each task knows the attempt that created it, and ignores a cancellation by another attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from tidegate.jobs.in_flight import current_attempt
from tidegate.logs import logger

T = TypeVar("T")
_log = logger("tidegate.worker")


class OwnedTask(asyncio.Task[Any]):
    """A task of a worker, or of the handler that created it."""

    owner: object = None  # the attempt that created it; None: the worker, or the program around it
    attempt: object = None  # the attempt that runs in it now
    owner_cancelled = False

    def cancel(self, msg: Any | None = None) -> bool:
        caller = current_attempt.get()
        if caller is not None and caller is not self.owner and caller is not self.attempt:
            _log.warning("cancellation_ignored task=%s hint=a handler cancelled a task that is not its own", self)
            return True  # otherwise a task that awaits this one would be cancelled instead
        self.owner_cancelled = self.owner_cancelled or caller is self.owner
        return super().cancel(msg)


def _create(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **options: Any
) -> OwnedTask:
    task = OwnedTask(coroutine, loop=loop, **options)
    task.owner = current_attempt.get()
    return task


async def protected(work: Coroutine[Any, Any, T]) -> T:
    """Runs a worker in a task that handlers cannot cancel, nor the task that awaits this.

    Not on a loop on which the program has set its own task factory.
    """
    loop, caller = asyncio.get_running_loop(), asyncio.current_task()
    if loop.get_task_factory() is None:
        loop.set_task_factory(_create)
    before = 0 if caller is None else caller.cancelling()
    result = await loop.create_task(work)
    while caller is not None and caller.cancelling() > before:
        caller.uncancel()  # by handlers
    return result


async def absorb_cancellation() -> None:
    """Ends the cancellation of the current task by a handler that ran in it, delivered or not."""
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        return
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)  # before Python 3.13, `uncancel` leaves a pending cancellation
    while task.cancelling():
        task.uncancel()
