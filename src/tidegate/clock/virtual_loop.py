"""An asyncio loop on a virtual clock: when nothing is ready, it jumps to the next timer instead of waiting.

Threads are real. Time does not move while a thread of the loop (`run_in_executor`, `to_thread`) works, so no timer
overtakes its result. If no task can continue and nothing is left to wake one, the loop raises `Deadlock` where a real
loop would hang for ever.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from tidegate.clock import VirtualClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Seconds of real time. A thread unknown to the loop may still wake it. A known thread may hang.
_THREAD_GRACE = 5.0
_THREAD_TIMEOUT = 60.0
# Tasks listed in a message.
_LISTED = 8


class Deadlock(RuntimeError):
    """All tasks wait, and no timer or thread is left to wake one."""


class _Jumping(selectors.DefaultSelector):
    """Polls the real selector without waiting. If nothing is ready, advances the time to the next timer."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self.loop: VirtualLoop | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0 or self.loop is None:
            return ready
        if self.loop.threads:
            return self._waited(
                self.loop.patience, "time stands still for a thread that has not come back in {:g} real seconds"
            )
        if timeout is not None:
            self._clock.sleep(timeout)
            return ready
        if len(self.get_map()) > 1:  # more than the loop's wake-up pipe: a socket or a child may send data
            return super().select(None)
        grace = _THREAD_GRACE if threading.active_count() > 1 else 0
        return self._waited(grace, "every task waits for what no timer and no thread will bring")

    def _waited(self, patience: float, otherwise: str) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(patience)
        if not ready and self.loop is not None:
            raise Deadlock(f"{otherwise.format(patience)}; waiting: {_waiting(self.loop)}")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with the time of a virtual clock."""

    def __init__(self, clock: VirtualClock, patience: float = _THREAD_TIMEOUT) -> None:
        selector = _Jumping(clock)
        super().__init__(selector)
        selector.loop = self
        self._virtual = clock
        self.patience = patience
        self.threads = 0  # working for this loop

    def time(self) -> float:
        return self._virtual.monotonic()

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._came_back)
        return future

    async def shutdown_default_executor(self, *timeout: Any) -> None:
        # The base class joins the threads from another thread, in newer versions with a timeout. Time must not jump to
        # it.
        self.threads += 1
        try:
            await super().shutdown_default_executor(*timeout)
        finally:
            self.threads -= 1

    def _came_back(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1


def run(clock: VirtualClock, main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main)


def _waiting(loop: asyncio.AbstractEventLoop) -> str:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    listed = [_where(task) for task in tasks[:_LISTED]]
    if len(tasks) > _LISTED:
        listed.append(f"and {len(tasks) - _LISTED} more")
    return ", ".join(listed) or "no task at all"


def _where(task: asyncio.Task[Any]) -> str:
    name = getattr(task.get_coro(), "__qualname__", "?")
    stack = task.get_stack(limit=1)
    return f"{name} (line {stack[0].f_lineno} of {stack[0].f_code.co_filename})" if stack else name
