"""Detects that the network of this process is down, so that no target is blamed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from tidegate.clock import SYSTEM, Clock
from tidegate.durations import Duration, seconds
from tidegate.faults.fault import Fault
from tidegate.validation import share, whole

# When most hosts fail at once it is our own network, and nobody else is to blame.

_NETWORK_CODES = frozenset({"network", "timeout", "cut_short"})
_MAX_HOSTS = 10_000  # keys whose host is remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkGuardPolicy:
    """*share* of at least *hosts* distinct hosts failing with network faults within *within* is our own link."""

    hosts: int = 10
    share: float = 0.5
    within: Duration = "60s"

    def __post_init__(self) -> None:
        whole(self.hosts, field="NetworkGuardPolicy.hosts", minimum=2)
        share(self.share, field="NetworkGuardPolicy.share")
        object.__setattr__(self, "within", seconds(self.within, field="NetworkGuardPolicy.within", minimum=0.001))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Who was called: a key of a target, and its host where that is known."""

    target: str
    key: Hashable
    host: str = ""


class NetworkGuard:
    """Which hosts answered and which did not, within the last minute. The caller holds the lock.

    A failure names its host more often than a success does: a success without one counts for the host where the same
    key failed last, else for the one host where the target failed, else for the target by its name.
    """

    __slots__ = ("_bad", "_good", "_hosts", "_within", "armed", "lost", "policy")

    def __init__(self, policy: NetworkGuardPolicy) -> None:
        self.policy = policy
        self.armed = False  # a host fails, so that every success is of interest
        self.lost = False
        self._within = seconds(policy.within)
        # By host, the oldest first.
        self._good: dict[str, float] = {}
        self._bad: dict[str, float] = {}
        self._hosts: dict[tuple[str, Hashable] | str, str] = {}  # where a key, or all of a target, failed

    def record_failure(self, endpoint: Endpoint, fault: Fault, now: float) -> bool:
        """Whether this failure is our own."""
        if fault.code not in _NETWORK_CODES:
            self.record_answer(endpoint, now)  # whatever it said, it was reached
            return False
        host = endpoint.host or endpoint.target
        if len(self._hosts) > _MAX_HOSTS:
            self._hosts.clear()
        self._hosts[endpoint.target, endpoint.key] = host
        known = self._hosts.setdefault(endpoint.target, host)
        if known != host:
            self._hosts[endpoint.target] = ""  # it has more than one
        self._seen(host, self._bad, now)
        return self.lost

    def record_answer(self, endpoint: Endpoint, now: float) -> None:
        host = endpoint.host or self._hosts.get((endpoint.target, endpoint.key)) or self._hosts.get(endpoint.target)
        self._seen(host or endpoint.target, self._good, now)

    def _seen(self, host: str, where: dict[str, float], now: float) -> None:
        self._good.pop(host, None)
        self._bad.pop(host, None)
        where[host] = now
        for seen in (self._good, self._bad):
            while seen and now - seen[oldest := next(iter(seen))] > self._within:
                del seen[oldest]
        known = len(self._good) + len(self._bad)
        self.lost = known >= self.policy.hosts and len(self._bad) >= self.policy.share * known
        self.armed = bool(self._bad)
        if not self.armed:
            self._hosts.clear()


# The one guard of a process against blaming others for its own network.

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
