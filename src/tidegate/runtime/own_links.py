"""The one guard of a process against blaming others for its own network."""

from __future__ import annotations

import threading

from tidegate.core.fault import Fault
from tidegate.machine.own_link import OwnLink, SelfGuard


class SharedLink:
    """`OwnLink` behind a lock: all targets of a process look through the same cable."""

    __slots__ = ("_link", "_lock", "_told", "armed")

    def __init__(self, policy: SelfGuard | None = None) -> None:
        self._link = OwnLink(policy or SelfGuard())
        self._lock = threading.Lock()
        self._told = False
        self.armed = False  # a plain field: the hot path asks it

    @property
    def lost(self) -> bool:
        return self._link.lost

    def failed(self, host: str, fault: Fault, now: float) -> tuple[bool, bool]:
        """Whether the failure is our own, and whether that is news."""
        with self._lock:
            own = self._link.failed(host, fault, now)
            return own, self._news()

    def answered(self, host: str, now: float) -> bool:
        """Whether this answer is the news that our link is back."""
        with self._lock:
            self._link.answered(host, now)
            return self._news()

    def _news(self) -> bool:
        self.armed = self._link.armed
        changed = self._told is not self._link.lost
        self._told = self._link.lost
        return changed


class NoLink(SharedLink):
    """The guard turned off: every failure is somebody else's."""

    __slots__ = ()

    def failed(self, host: str, fault: Fault, now: float) -> tuple[bool, bool]:
        return False, False


DEFAULT = SharedLink()
OFF = NoLink()
