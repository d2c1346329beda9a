"""Breakers of single keys. A key that never failed has none; one that has been well for a while is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from tidegate.machine.breaker import CLOSED, Breaker

_SWEEP_AT = 256  # keys, or twice as many as were left


class KeyBreakers:
    """Made at the first failure of a key: from then on its calls are counted."""

    def __init__(self, make: Callable[[Hashable], Breaker]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._sweep_at = _SWEEP_AT
        self._by_key: dict[Hashable, Breaker] = {}

    def get(self, key: Hashable) -> Breaker | None:
        return self._by_key.get(key)

    def made(self, key: Hashable) -> Breaker:
        """The breaker of a key that has failed."""
        with self._lock:
            found = self._by_key.get(key)
            if found is None:
                if len(self._by_key) >= self._sweep_at:
                    self._sweep()
                found = self._by_key[key] = self._make(key)
            return found

    def all(self) -> list[tuple[Hashable, Breaker]]:
        with self._lock:
            return list(self._by_key.items())

    def _sweep(self) -> None:
        """Forgets the breakers that are closed and count no failure."""
        for key, breaker in list(self._by_key.items()):
            if breaker.state == CLOSED and not breaker.run and not breaker.counts.failures:
                del self._by_key[key]
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._by_key))
