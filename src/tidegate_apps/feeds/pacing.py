"""How fast overdue feeds are polled, so that a pause of ours is no wave for others."""

from __future__ import annotations

from collections.abc import Callable

_MIN_RATE = 2.0  # polls per second
_CATCH_UP = 2.5  # times the mean


class PollRateLimiter:
    """So many polls a second, and no more than a second's worth at once."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._rate = _MIN_RATE
        self._left, self._at = 1.0, monotonic()

    def usual(self, polls_per_second: float) -> None:
        """So many are polled when all goes well."""
        self._rate = max(_MIN_RATE, _CATCH_UP * polls_per_second)

    def take(self) -> bool:
        """Whether one more may begin now."""
        now = self._monotonic()
        self._left = min(max(1.0, self._rate), self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
