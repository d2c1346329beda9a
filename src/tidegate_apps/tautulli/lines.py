"""The connections of a client, so that a thread which is to stop need not wait for one that waits for an answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakSet

_OPENED = ("connection.connect_tcp.complete", "connection.start_tls.complete")


class ConnectionTracker:
    """All that are open. *cuts* says how often they were cut."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = WeakSet[socket.socket]()
        self.cuts = 0
        self.heard: dict[str, Any] = {"trace": self._heard}  # for the requests whose lines these are

    def cut(self) -> None:
        """Whoever waits on one of them, waits no more. The next request opens a new one."""
        with self._lock:
            self.cuts += 1
            for line in self._open:
                # Closing it would wake nobody. One that is gone, or became one of TLS, cannot be shut down.
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def _heard(self, event: str, said: Mapping[str, Any]) -> None:
        if event in _OPENED:
            line = said["return_value"].get_extra_info("socket")
            if line is not None:
                with self._lock:
                    self._open.add(line)
