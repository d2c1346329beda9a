"""A service that collapses when it is asked for more than it can do, and that has dips."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from tidegate.clock import VirtualClock

TOLERATED = 1.2  # above so many times its capacity it thrashes
QUICK = 0.1  # seconds that an answer takes when nobody else waits
PATIENCE = 2.0  # seconds after which a caller gives up


@dataclass
class Gateway:
    """Answers one call after the other. Who gives up is served all the same: that is what keeps an overload going.

    Asked for more than 1.2 times what it can do within a second, it does a quarter of it, until it is asked for less.
    """

    clock: VirtualClock
    capacity: float  # answers a second
    calls: list[float] = field(default_factory=list)  # when each began
    good: list[float] = field(default_factory=list)  # when each was answered
    bad: list[float] = field(default_factory=list)  # when each caller gave up
    _recent: deque[float] = field(default_factory=deque)
    _waiting: float = 0.0
    _at: float = 0.0

    async def call(self) -> None:
        now = self.clock.monotonic()
        self.calls.append(now)
        speed = self._speed(now)
        self._waiting = max(0.0, self._waiting - (now - self._at) * speed) + 1
        self._at = now
        takes = QUICK + self._waiting / speed
        await asyncio.sleep(min(takes, PATIENCE))
        if takes > PATIENCE:
            self.bad.append(self.clock.monotonic())
            raise TimeoutError("no answer in time")
        self.good.append(self.clock.monotonic())

    def _speed(self, now: float) -> float:
        self._recent.append(now)
        while now - self._recent[0] >= 1:
            self._recent.popleft()
        return self.capacity / 4 if len(self._recent) > self.capacity * TOLERATED else self.capacity
