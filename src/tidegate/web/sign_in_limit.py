"""How often a password may be tried: a few times freely, then slower and slower, for the name and for the address."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

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

    def begin(self, name: str, address: str) -> float:
        """Seconds until a password may be tried; 0: now, and the try counts against the name until it has `passed`.

        So many at once are tried no more often than one after the other. An address may be that of many people, who all
        know their passwords: a try counts against it when it has `failed`.
        """
        now = self._clock()
        with self._lock:
            left = max(self._left(key, now) for key in (name, address))
            if not left:
                self._count(name, now)
            return left

    def failed(self, address: str) -> None:
        with self._lock:
            self._count(address, self._clock())

    def passed(self, name: str, address: str) -> None:
        with self._lock:
            for key in (name, address):
                self._failures.pop(key, None)

    def _count(self, key: str, now: float) -> None:
        n, last = self._failures.pop(key, (0, now))
        self._failures[key] = (1 if now - last > _FORGOTTEN else n + 1, now)
        while len(self._failures) > _MOST:
            self._failures.popitem(last=False)

    def _left(self, key: str, now: float) -> float:
        n, last = self._failures.get(key, (0, now))
        if n < FREE or now - last > _FORGOTTEN:
            return 0.0
        return max(0.0, last + min(_FIRST * 2.0 ** min(n - FREE, 20), _LONGEST) - now)
