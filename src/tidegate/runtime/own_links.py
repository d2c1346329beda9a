"""The one guard of a process against blaming others for its own network."""

from __future__ import annotations

import threading
from collections import OrderedDict

from tidegate.core.fault import Fault
from tidegate.machine.own_link import OwnLink, Place, SelfGuard
from tidegate.runtime.clock import SYSTEM, Clock

_MOST_CLOCKS = 8


class SharedLink:
    """`OwnLink` behind a lock: all targets of a process look through the same cable."""

    __slots__ = ("_link", "_lock", "armed")

    def __init__(self, policy: SelfGuard | None = None) -> None:
        self._link = OwnLink(policy or SelfGuard())
        self._lock = threading.Lock()
        self.armed = False  # a plain field: the hot path asks it

    @property
    def lost(self) -> bool:
        return self._link.lost

    def failed(self, place: Place, fault: Fault, now: float) -> tuple[bool, bool]:
        """Whether the failure is our own, and whether it is news that the link is lost or back."""
        with self._lock:
            before = self._link.lost
            own = self._link.failed(place, fault, now)
            self.armed = self._link.armed
            return own, self._link.lost is not before

    def answered(self, place: Place, now: float) -> bool:
        """Whether it is news that the link is back (or, with one host more to judge by, lost)."""
        with self._lock:
            before = self._link.lost
            self._link.answered(place, now)
            self.armed = self._link.armed
            return self._link.lost is not before


class NoLink(SharedLink):
    """The guard turned off: every failure is somebody else's."""

    __slots__ = ()

    def failed(self, place: Place, fault: Fault, now: float) -> tuple[bool, bool]:
        return False, False

    def answered(self, place: Place, now: float) -> bool:
        return False


OFF = NoLink()
DEFAULT = SharedLink()
_others: OrderedDict[int, tuple[Clock, SharedLink]] = OrderedDict()


def of(clock: Clock) -> SharedLink:
    """The link that all targets on one clock share; a test with a clock of its own does not see those of another."""
    if clock is SYSTEM:
        return DEFAULT
    found = _others.pop(id(clock), None) or (clock, SharedLink())
    _others[id(clock)] = found
    if len(_others) > _MOST_CLOCKS:
        _others.popitem(last=False)
    return found[1]
