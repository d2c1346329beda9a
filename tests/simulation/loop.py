"""The loop that all processes share: virtual time, no threads, and processes that stand still while others go on."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, TypeVar, TypeVarTuple

from tidegate.clock import VirtualClock
from tidegate.clock.virtual_loop import Deadlock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_ROUNDS = 5  # cancellations that a task may swallow
_LONGEST = 300_000  # questions what time it is, at one moment


class Process:
    """Whatever runs in its context gets no turn while it stands still, as after SIGSTOP."""

    def __init__(self) -> None:
        self.still = False
        self.stops = 0  # how often it stood still
        self._held: list[Callable[[], object]] = []

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs *work* as this process."""
        context = copy_context()
        context.run(_PROCESS.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    async def end(self) -> None:
        """Nothing of it goes on, also what would clean up for a while."""
        for _ in range(_ROUNDS):
            for task in asyncio.all_tasks():
                if isinstance(task, Numbered) and task.process is self:
                    task.cancel()
            await asyncio.sleep(0)

    def stop(self) -> None:
        self.still = True
        self.stops += 1

    def go_on(self) -> None:
        """All that it missed comes now, in its order."""
        self.still, held = False, self._held
        self._held = []
        for each in held:
            each()

    def hold(self, later: Callable[[], object]) -> None:
        self._held.append(later)


_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def here() -> Process | None:
    """The process that asks."""
    return _PROCESS.get()


class Stuck(RuntimeError):
    """Something goes on and on, and time does not."""


class _Unasked(selectors.SelectSelector):
    """Nothing comes from outside into a world, so nobody asks the system: when nothing is ready, time has passed."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._pass = clock.sleep

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("every task waits for what no timer will bring")
        if timeout > 0:
            self._pass(timeout)
        return []


class WorldLoop(asyncio.SelectorEventLoop):
    """Its time is the clock's, and it asks of each callback whose it is. All of it is in one thread."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_Unasked(clock))
        self._virtual = clock
        self._at, self._asked = -1.0, 0

    def time(self) -> float:
        now = self._virtual.monotonic()
        if now == self._at:
            self._asked += 1
            if self._asked > _LONGEST:
                raise Stuck(f"time stands still at {now:.3f}, and somebody is busy")
        else:
            self._at, self._asked = now, 0
        return now

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        if process is None or not process.still:
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        self._held(process, handle, callback, args, context or copy_context())
        return handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)

        def due() -> None:
            if process.still:
                self._held(process, handle, callback, args, copy_context())
            else:
                callback(*args)

        handle = super().call_at(when, due, context=context)
        return handle

    def _held(
        self, process: Process, handle: asyncio.Handle, callback: Callable[..., object], args: Any, context: Context
    ) -> None:
        def run() -> None:
            if not handle.cancelled():
                callback(*args)

        process.hold(lambda: self.call_soon(run, context=context))


class TrueTime:
    """The clock that services go by: nobody here can step it."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self._start = clock, clock.now()

    def now(self) -> float:
        return self._start + self._clock.monotonic()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, wait: float) -> None:
        self._clock.sleep(wait)

    async def asleep(self, wait: float) -> None:
        await self._clock.asleep(wait)


class Inline(ThreadPoolExecutor):
    """Does it at once: what a thread would do while time stands still anyway."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **more: Any) -> Future[T]:
        found: Future[T] = Future()
        try:
            found.set_result(fn(*args, **more))
        except BaseException as error:  # whoever waits gets it
            found.set_exception(error)
        return found


class Numbered(asyncio.Task[Any]):
    """Sets of tasks are in the order of their numbers, not of where the memory had room for them."""

    def __init__(self, work: Any, number: int, **more: Any) -> None:
        context = more.get("context")
        self.number, self.process = number, here() if context is None else context.get(_PROCESS)
        super().__init__(work, **more)

    def __hash__(self) -> int:
        return self.number


def run(clock: VirtualClock, main: Coroutine[Any, Any, T]) -> T:
    made = count(1)

    def task(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> Numbered:
        return Numbered(work, next(made), loop=loop, **more)

    with asyncio.Runner(loop_factory=lambda: WorldLoop(clock)) as runner:
        runner.get_loop().set_default_executor(Inline())
        runner.get_loop().set_task_factory(task)
        return runner.run(main)
