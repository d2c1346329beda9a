"""How often a password may be tried: per user and network, per network, and in all.

Only the pair of a user and a network has growing waits, so a stranger elsewhere cannot keep a user out. The two other
limits refill steadily. A browser with a device cookie has a count of its own instead of all three.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

FREE = 5  # failures of a pair that cost nothing
FREE_OF_DEVICE = 10  # failures with one device cookie; then, for a day, the browser counts as a stranger
_FIRST, _LONGEST = 2.0, 900.0  # seconds to wait after the next failure, and at most
_FORGOTTEN = 3600.0  # seconds without a failure after which a pair starts anew
_DAY = 86400.0
_MAX_KEPT = 10_000  # pairs, networks and devices that are remembered, of each


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInAttempt:
    """One try to sign in; *wait* is the seconds until it may be made, 0 for now."""

    pair: tuple[str, str]  # user and network
    device: str | None  # whose count it is on; None: on that of the pair
    wait: float


class SignInLimit:
    """Counts failures in this process. No account is ever locked."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pairs = _Failures(forgotten=_FORGOTTEN)
        self._devices = _Failures(forgotten=_DAY)
        self._networks: OrderedDict[str, _Bucket] = OrderedDict()
        self._all = _Bucket(burst=100, per_second=1.0, at=clock())

    def begin(self, name: str, network: str, device: str | None = None) -> SignInAttempt:
        """Counts the try against its device or its pair from here on, so that concurrent ones are not free.

        A network may be that of many people who know their passwords: only what `failed` counts against it.
        """
        now, pair = self._clock(), (name, network)
        with self._lock:
            if device is not None and self._devices.count(device, now) < FREE_OF_DEVICE:
                self._devices.add(device, now)
                return SignInAttempt(pair=pair, device=device, wait=0.0)
            known = self._networks.get(network)
            wait = max(self._pairs.wait(pair, now), self._all.wait(now), known.wait(now) if known else 0.0)
            if not wait:
                self._pairs.add(pair, now)
            return SignInAttempt(pair=pair, device=None, wait=wait)

    def failed(self, attempt: SignInAttempt) -> None:
        """The password was wrong."""
        if attempt.device is not None:
            return  # others must not pay for it
        now, network = self._clock(), attempt.pair[1]
        with self._lock:
            found = self._networks.pop(network, None) or _Bucket(burst=30, per_second=1 / 20, at=now)
            self._networks[network] = found
            found.fill(now)
            self._all.fill(now)
            if len(self._networks) > _MAX_KEPT:
                self._networks.popitem(last=False)

    def passed(self, attempt: SignInAttempt) -> None:
        """The password was right: the failures of the pair and of the device are forgotten."""
        with self._lock:
            self._pairs.forget(attempt.pair)
            if attempt.device is not None:
                self._devices.forget(attempt.device)

    def release(self, attempt: SignInAttempt) -> None:
        """The password was not tried after all."""
        with self._lock:
            if attempt.device is not None:
                self._devices.take_back(attempt.device)
            else:
                self._pairs.take_back(attempt.pair)


class _Failures:
    """How often each key failed, and when it did last."""

    def __init__(self, *, forgotten: float) -> None:
        self._forgotten = forgotten
        self._kept: OrderedDict[Hashable, tuple[int, float]] = OrderedDict()

    def count(self, key: Hashable, now: float) -> int:
        n, last = self._kept.get(key, (0, now))
        return 0 if now - last > self._forgotten else n

    def wait(self, key: Hashable, now: float) -> float:
        """Seconds until the next try: none for the first failures, then twice as long after each."""
        n = self.count(key, now)
        if n < FREE:
            return 0.0
        return max(0.0, self._kept[key][1] + min(_FIRST * 2.0 ** min(n - FREE, 20), _LONGEST) - now)

    def add(self, key: Hashable, now: float) -> None:
        n = self.count(key, now)
        self.forget(key)
        self._kept[key] = (n + 1, now)
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)

    def take_back(self, key: Hashable) -> None:
        n, last = self._kept.get(key, (0, 0.0))
        if n:
            self._kept[key] = (n - 1, last)

    def forget(self, key: Hashable) -> None:
        self._kept.pop(key, None)


class _Bucket:
    """Failures that are allowed at once, and how many more per second."""

    __slots__ = ("_at", "_burst", "_per_second", "_used")

    def __init__(self, *, burst: float, per_second: float, at: float) -> None:
        self._burst, self._per_second = burst, per_second
        self._used, self._at = 0.0, at

    def fill(self, now: float) -> None:
        self._used, self._at = self._now_used(now) + 1, now

    def wait(self, now: float) -> float:
        return max(0.0, (self._now_used(now) + 1 - self._burst) / self._per_second)

    def _now_used(self, now: float) -> float:
        return max(0.0, self._used - (now - self._at) * self._per_second)
