"""The one file that reads time. Everything else is handed a clock."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tidegate.durations import Duration, seconds

T = TypeVar("T")


class Clock(Protocol):
    """Time, and waiting for it."""

    def now(self) -> float:
        """UNIX time, for people and for comparing with other machines."""

    def monotonic(self) -> float:
        """Seconds that never step, for measuring."""

    def sleep(self, wait: float) -> None: ...

    async def asleep(self, wait: float) -> None: ...


# Unlike the monotonic clock of Linux, boot time goes on while the machine sleeps: a rest of 48 h is over after 48 h.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def _boot_id() -> str:
    """What tells this boot from others, with the name space of its clocks; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + str(Path("/proc/self/ns/time").readlink())
    except OSError:
        return ""


class SystemClock:
    """The machine's own time."""

    __slots__ = ()

    boot_id = _boot_id() if _BOOTTIME is not None else ""  # of the boot that `monotonic` counts from

    # No functions of ours around them: every guarded call reads the time.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME))

    def __repr__(self) -> str:
        return "SystemClock()"  # the default in signatures that `help` shows

    def sleep(self, wait: float) -> None:
        time.sleep(wait)

    async def asleep(self, wait: float) -> None:
        import asyncio

        await asyncio.sleep(wait)


class VirtualClock:
    """Time that moves only when told to, or when everybody waits for it.

    clock = VirtualClock()
    clock.advance("24h")                    # in synchronous code
    clock.run(main())                       # asyncio on this clock: a day of sleeps takes milliseconds
    """

    __slots__ = ("_elapsed", "_lock", "_start", "boot_id")

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start = start
        self._elapsed = 0.0
        self._lock = threading.Lock()
        self.boot_id = uuid.uuid4().hex

    def now(self) -> float:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, duration: Duration) -> None:
        """Moves time forward; timers of a running loop fire when it gets its next turn."""
        self.sleep(seconds(duration, field="advance"))

    def advance_to(self, moment: float) -> None:
        """Moves `monotonic()` forward to *moment*, exactly; a moment that has passed changes nothing."""
        with self._lock:
            self._elapsed = max(self._elapsed, moment)

    def step_wall(self, by: float) -> None:
        """Steps the wall clock alone, back or forth, as NTP or a person may."""
        self._start += by

    def sleep(self, wait: float) -> None:
        # Guarded functions may sleep in many threads at once, and no wait may be lost.
        with self._lock:
            self._elapsed += max(0.0, wait)

    async def asleep(self, wait: float) -> None:
        import asyncio

        await asyncio.sleep(wait)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs *main* on an event loop whose time is this clock's: when all wait, it jumps to the next timer.

        Work handed to `run_in_executor` or `asyncio.to_thread` is waited for and takes no virtual time. Raises
        `tidegate.testing.Deadlock` when every task waits for what nothing will bring.
        """
        from tidegate.clock.virtual_loop import run

        return run(self, main)


SYSTEM = SystemClock()
