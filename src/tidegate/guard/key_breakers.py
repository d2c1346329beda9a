"""Breakers of single keys. A key gets one at its first failure. A healthy or idle key loses it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from tidegate.guard.breaker import Breaker
from tidegate.guard.breaker_state import CLOSED

_MAX_REVIEW_EVERY = 60.0  # seconds between two reviews of one breaker
_MIN_REVIEW_EVERY = 1.0
_MAX_REVIEWED = 500  # breakers at one failure, which takes about 2 ms


@dataclass(slots=True)
class _Review:
    """The result of the last review of one breaker."""

    key: Hashable
    breaker: Breaker
    reviewed_at: float
    active_at: float  # when a review last saw new calls
    calls: int = 1  # the failure that created it


class KeyBreakers:
    """The breakers by key. A success and a rejection cost one dict lookup. Failures pay for the reviews.

    A review evicts a breaker that is closed without failures, and one without calls for *idle_after* seconds. It keeps
    a breaker that an operator forced.
    """

    def __init__(
        self, make: Callable[[Hashable], Breaker], *, monotonic: Callable[[], float], idle_after: float
    ) -> None:
        self._make = make
        self._monotonic = monotonic
        self._idle_after = idle_after
        self._review_every = min(max(idle_after, _MIN_REVIEW_EVERY), _MAX_REVIEW_EVERY)
        self._lock = threading.Lock()
        self._reviewing = threading.Lock()
        self._by_key: dict[Hashable, Breaker] = {}
        self._reviews: deque[_Review] = deque()  # ordered by due time

    def get(self, key: Hashable) -> Breaker | None:
        return self._by_key.get(key)

    def made(self, key: Hashable) -> Breaker:
        """Returns the breaker of a key that has failed, and creates it if needed."""
        now = self._monotonic()
        with self._lock:
            breaker = self._by_key.get(key)
            if breaker is None:
                breaker = self._by_key[key] = self._make(key)
                self._reviews.append(_Review(key, breaker, now, now))
        self._review(now, _MAX_REVIEWED)
        return breaker

    def all(self) -> list[tuple[Hashable, Breaker]]:
        self._review(self._monotonic(), len(self._reviews))
        with self._lock:
            return list(self._by_key.items())

    def _review(self, now: float, limit: int) -> None:
        """Evicts healthy and idle breakers among those whose review is due.

        Reading a breaker may run a callback of the program, so no lock is held that calls wait for.
        """
        if not self._is_due(now) or not self._reviewing.acquire(blocking=False):
            return
        try:
            while limit > 0 and self._is_due(now):
                limit -= 1
                review = self._reviews.popleft()
                if self._is_needed(review, now):
                    self._reviews.append(review)
                else:
                    with self._lock:
                        del self._by_key[review.key]
        finally:
            self._reviewing.release()

    def _is_due(self, now: float) -> bool:
        try:
            return now >= self._reviews[0].reviewed_at + self._review_every
        except IndexError:  # another thread reviews the last one
            return False

    def _is_needed(self, review: _Review, now: float) -> bool:
        breaker = review.breaker
        calls = sum(breaker.totals.values())
        review.reviewed_at = now
        if calls != review.calls:
            review.calls, review.active_at = calls, now
        if breaker.hot()[0].forced:
            return True
        if breaker.state == CLOSED and not breaker.run and not breaker.counts.failures:
            return False
        return now - review.active_at <= self._idle_after
