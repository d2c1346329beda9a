"""The one guard of a process against blaming others for its own network."""

from __future__ import annotations

import threading
from collections import OrderedDict

from tidegate.core.fault import Fault
from tidegate.machine.own_link import Endpoint, NetworkGuard, NetworkGuardPolicy
from tidegate.runtime.clock import SYSTEM, Clock

_MAX_CLOCKS = 8


class ProcessNetworkGuard:
    """`NetworkGuard` behind a lock: all targets of a process look through the same cable."""

    __slots__ = ("_link", "_lock", "armed")

    def __init__(self, policy: NetworkGuardPolicy | None = None) -> None:
        self._link = NetworkGuard(policy or NetworkGuardPolicy())
        self._lock = threading.Lock()
        self.armed = False  # a plain field: the hot path asks it

    @property
    def lost(self) -> bool:
        return self._link.lost

    def record_failure(self, endpoint: Endpoint, fault: Fault, now: float) -> tuple[bool, bool]:
        """Whether the failure is our own, and whether it is news that the link is lost or back."""
        with self._lock:
            before = self._link.lost
            own = self._link.record_failure(endpoint, fault, now)
            self.armed = self._link.armed
            return own, self._link.lost is not before

    def record_answer(self, endpoint: Endpoint, now: float) -> bool:
        """Whether it is news that the link is back (or, with one host more to judge by, lost)."""
        with self._lock:
            before = self._link.lost
            self._link.record_answer(endpoint, now)
            self.armed = self._link.armed
            return self._link.lost is not before


class NullNetworkGuard(ProcessNetworkGuard):
    """The guard turned off: every failure is somebody else's."""

    __slots__ = ()

    def record_failure(self, endpoint: Endpoint, fault: Fault, now: float) -> tuple[bool, bool]:
        return False, False

    def record_answer(self, endpoint: Endpoint, now: float) -> bool:
        return False


OFF = NullNetworkGuard()
DEFAULT = ProcessNetworkGuard()
_others: OrderedDict[int, tuple[Clock, ProcessNetworkGuard]] = OrderedDict()


def of(clock: Clock) -> ProcessNetworkGuard:
    """The link that all targets on one clock share; a test with a clock of its own does not see those of another."""
    if clock is SYSTEM:
        return DEFAULT
    found = _others.pop(id(clock), None) or (clock, ProcessNetworkGuard())
    _others[id(clock)] = found
    if len(_others) > _MAX_CLOCKS:
        _others.popitem(last=False)
    return found[1]
