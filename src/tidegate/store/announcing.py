"""One announcement for a burst of changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class NotifyThrottle:
    """Lets through one announcement per *every* seconds, and one more after a burst."""

    def __init__(self, send: Callable[[], None], every: float = 0.01) -> None:
        self._send = send
        self._every = every
        self._lock = threading.Lock()
        self._last = 0.0
        self._timer: threading.Timer | None = None

    def announce(self) -> None:
        with self._lock:
            now = time.monotonic()
            wait = self._last + self._every - now
            if wait > 0:
                if self._timer is None:
                    self._timer = threading.Timer(wait, self._late)
                    self._timer.daemon = True
                    self._timer.start()
                return
            self._last = now
        self._send()

    def _late(self) -> None:
        with self._lock:
            self._timer = None
            self._last = time.monotonic()
        self._send()
