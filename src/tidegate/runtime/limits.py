"""Rate and concurrency of one target, in process."""

from __future__ import annotations

import math
import threading

from tidegate.core.rate import Rate
from tidegate.machine.gate import EndedBy, Hold, HoldReason
from tidegate.machine.ramp import UNLIMITED, ramp_limit


class CallLimits:
    """Counts what is under way and what the rate has paid for."""

    __slots__ = ("_active", "_closed_at", "_lock", "_paid_until", "concurrency", "rate", "wait")

    def __init__(self, rate: Rate | None, concurrency: int | None, wait: float) -> None:
        self.rate = rate
        self.concurrency = concurrency
        self.wait = wait  # how long a call may wait for its turn
        self._lock = threading.Lock()
        self._active = 0
        self._paid_until = -math.inf
        self._closed_at: float | None = None

    def take(self, now: float, limit: float = math.inf) -> Hold | float:
        """Seconds to wait before the call, at most *most*; or why it may not go."""
        with self._lock:
            held = self._holds(now, limit)
            if held:
                return held[0]
            wait = 0.0
            if self.rate is not None:
                wait = self.rate.wait(self._paid_until, now)
                self._paid_until = self.rate.pay(self._paid_until, now)
            self._active += 1
            return wait

    def holds(self, now: float) -> list[Hold]:
        """Why a call may not go now, in the order of the gate."""
        with self._lock:
            return self._holds(now, math.inf)

    def _holds(self, now: float, limit: float) -> list[Hold]:
        found = []
        wait = 0.0 if self.rate is None else self.rate.wait(self._paid_until, now)
        if wait > min(self.wait, limit):
            found.append(Hold(reason=HoldReason.RATE, since=now, until=now + wait))
        if self.concurrency is not None and self._active >= self.allowed(now):
            found.append(Hold(reason=HoldReason.CONCURRENCY, since=now, until=None, ended_by=EndedBy.CALL))
        return found

    def release(self) -> None:
        with self._lock:
            self._active -= 1

    def closed(self, now: float) -> None:
        """The breaker has just closed: a backlog must not kill the service that came back."""
        self._closed_at = now

    def allowed(self, now: float) -> int:
        """How many calls may be under way at this moment."""
        return UNLIMITED if self.concurrency is None else ramp_limit(self.concurrency, self._closed_at, now)
