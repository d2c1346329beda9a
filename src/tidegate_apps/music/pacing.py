"""How fast a service is asked, by all that it counts together: one limiter for each, shared by every user."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate import Rate
from tidegate_apps.music.contract import ProviderClock

_MAX_SLOWER = 16.0
_RECOVERY_SECONDS = 60.0  # seconds after which the pace doubles again, until it is the declared one
_SAME_EPISODE = 10.0  # seconds in which further complaints are about requests that were under way already


@dataclass(slots=True)
class _Limiter:
    paid_until: float
    slower: float = 1.0
    changed: float = 0.0


class Limiters:
    """One for the process, and on one loop. Whoever comes first goes first; a turn that is not taken is lost."""

    def __init__(self, clock: ProviderClock) -> None:
        self._clock = clock
        self._limiters: dict[str, _Limiter] = {}

    async def turn(self, key: str, rate: Rate) -> None:
        """Waits until the next request of *key* may go; the time is counted from the start of each."""
        now = self._clock.monotonic()
        limiter = self._limiters.setdefault(key, _Limiter(now))
        self._forgive(limiter, now)
        paced = rate if limiter.slower == 1 else Rate(rate.count / limiter.slower, rate.per)
        wait = paced.wait(limiter.paid_until, now)
        limiter.paid_until = paced.pay(limiter.paid_until, now)
        if wait > 0:
            await self._clock.asleep(wait)

    def slower(self, key: str) -> None:
        """Half as much of *key* from now on; it grows again by itself."""
        now = self._clock.monotonic()
        limiter = self._limiters.setdefault(key, _Limiter(now))
        self._forgive(limiter, now)
        if limiter.slower > 1 and now - limiter.changed < _SAME_EPISODE:
            return
        limiter.slower, limiter.changed = min(limiter.slower * 2, _MAX_SLOWER), now

    def _forgive(self, limiter: _Limiter, now: float) -> None:
        while limiter.slower > 1 and now - limiter.changed >= _RECOVERY_SECONDS:
            limiter.slower, limiter.changed = limiter.slower / 2, limiter.changed + _RECOVERY_SECONDS
