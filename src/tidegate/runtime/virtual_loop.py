"""An asyncio loop on a virtual clock: when nothing is ready, it jumps to the next timer instead of waiting."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tidegate.runtime.clock import VirtualClock

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Asks the real selector without waiting; if nothing is ready, the time until the next timer has passed."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # No timer at all: only a thread can wake us, so wait for real, as a real loop would.
        ready = super().select(timeout=0 if timeout is not None else None)
        if not ready and timeout:
            self._clock.sleep(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is the clock's."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_Jumping(clock))
        self._virtual = clock

    def time(self) -> float:
        return self._virtual.monotonic()


def run(clock: VirtualClock, main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main)
