"""How often a password may be tried: a few times freely, then slower and slower, for the name and for the address."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

FREE = 5  # failures that cost nothing
_FIRST, _LONGEST = 2.0, 900.0  # seconds to wait after the next one, and at most
_FORGOTTEN = 3600.0  # seconds without a failure after which all is forgotten
_MOST = 10_000  # names and addresses that are remembered


class SignInLimit:
    """Counts failures in this process. It never locks anybody out for good."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and the time of the last

    def wait(self, keys: Iterable[str]) -> float:
        """Seconds until one of these may be tried again; 0 for now."""
        now = self._clock()
        with self._lock:
            return max((self._left(key, now) for key in keys), default=0.0)

    def failed(self, keys: Iterable[str]) -> None:
        now = self._clock()
        with self._lock:
            for key in keys:
                n, last = self._failures.pop(key, (0, now))
                self._failures[key] = (1 if now - last > _FORGOTTEN else n + 1, now)
            while len(self._failures) > _MOST:
                self._failures.popitem(last=False)

    def passed(self, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                self._failures.pop(key, None)

    def _left(self, key: str, now: float) -> float:
        n, last = self._failures.get(key, (0, now))
        if n < FREE or now - last > _FORGOTTEN:
            return 0.0
        return max(0.0, last + min(_FIRST * 2.0 ** min(n - FREE, 20), _LONGEST) - now)
