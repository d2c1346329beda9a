"""Clocks. Only this module reads the time. All other code gets a clock as an argument."""

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
    """Reads the time, and sleeps."""

    def now(self) -> float:
        """UNIX time, for users and for comparison with other machines."""

    def monotonic(self) -> float:
        """Monotonic seconds, for measuring."""

    def sleep(self, wait: float) -> None: ...

    async def asleep(self, wait: float) -> None: ...


# Unlike Linux's monotonic clock, boot time continues during suspend: a cooldown of 48 h ends after 48 h.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def _boot_id() -> str:
    """Identifies this boot and the namespace of its clocks. Empty if the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + str(Path("/proc/self/ns/time").readlink())
    except OSError:
        return ""


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    boot_id = _boot_id() if _BOOTTIME is not None else ""  # the boot that `monotonic` counts from

    # Direct references without a wrapper: every guarded call reads the time.
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
    """Time that moves only on request, or when all tasks wait for it.

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
        """Moves time forward. Timers of a running loop fire in its next iteration."""
        self.sleep(seconds(duration, field="advance"))

    def advance_to(self, moment: float) -> None:
        """Moves `monotonic()` forward to *moment*, exactly. A moment in the past has no effect."""
        with self._lock:
            self._elapsed = max(self._elapsed, moment)

    def step_wall(self, by: float) -> None:
        """Steps only the wall clock, forward or back, as NTP or an operator may."""
        self._start += by

    def sleep(self, wait: float) -> None:
        # Guarded functions may sleep in several threads, and every sleep must count.
        with self._lock:
            self._elapsed += max(0.0, wait)

    async def asleep(self, wait: float) -> None:
        import asyncio

        await asyncio.sleep(wait)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs *main* on an event loop with this clock. When all tasks wait, time jumps to the next timer.

        Work in `run_in_executor` or `asyncio.to_thread` is awaited and takes no virtual time. Raises
        `tidegate.testing.Deadlock` if all tasks wait and nothing can wake one.
        """
        from tidegate.clock.virtual_loop import run

        return run(self, main)


SYSTEM = SystemClock()
