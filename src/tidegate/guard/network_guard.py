"""Detects that the local network is down, so that no target is held responsible."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from tidegate.clock import SYSTEM, Clock
from tidegate.durations import Duration, seconds
from tidegate.faults.fault import Fault
from tidegate.validation import share, whole

# -- rules ----------------------------------------------------------------------------------------------------------

_NETWORK_CODES = frozenset({"network", "timeout", "cut_short"})
_MAX_HOSTS = 10_000  # keys whose host is remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkGuardPolicy:
    """If *share* of at least *hosts* hosts fail with network faults within *within*, the local network is down."""

    hosts: int = 10
    share: float = 0.5
    within: Duration = "60s"

    def __post_init__(self) -> None:
        whole(self.hosts, field="NetworkGuardPolicy.hosts", minimum=2)
        share(self.share, field="NetworkGuardPolicy.share")
        object.__setattr__(self, "within", seconds(self.within, field="NetworkGuardPolicy.within", minimum=0.001))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The destination of a call: a key of a target, and its host if known."""

    target: str
    key: Hashable
    host: str = ""


class NetworkGuard:
    """The hosts that responded or failed within the last minute. The caller holds the lock.

    A failure knows its host more often than a success does. A success without a host counts for the host of the last
    failure of the same key, else for the only failing host of the target, else for the name of the target.
    """

    __slots__ = ("_bad", "_good", "_hosts", "_within", "armed", "lost", "policy")

    def __init__(self, policy: NetworkGuardPolicy) -> None:
        self.policy = policy
        self.armed = False  # a host is failing, so every success matters
        self.lost = False
        self._within = seconds(policy.within)
        # By host, oldest first.
        self._good: dict[str, float] = {}
        self._bad: dict[str, float] = {}
        self._hosts: dict[tuple[str, Hashable] | str, str] = {}  # the host where a key, or all of a target, failed

    def record_failure(self, endpoint: Endpoint, fault: Fault, now: float) -> bool:
        """Records a failure. Returns whether the local network caused it."""
        if fault.code not in _NETWORK_CODES:
            self.record_answer(endpoint, now)  # the host responded, whatever the response
            return False
        host = endpoint.host or endpoint.target
        if len(self._hosts) > _MAX_HOSTS:
            self._hosts.clear()
        self._hosts[endpoint.target, endpoint.key] = host
        known = self._hosts.setdefault(endpoint.target, host)
        if known != host:
            self._hosts[endpoint.target] = ""  # more than one host
        self._seen(host, self._bad, now)
        return self.lost

    def record_answer(self, endpoint: Endpoint, now: float) -> None:
        host = endpoint.host or self._hosts.get((endpoint.target, endpoint.key)) or self._hosts.get(endpoint.target)
        self._seen(host or endpoint.target, self._good, now)

    def _seen(self, host: str, where: dict[str, float], now: float) -> None:
        self._good.pop(host, None)
        self._bad.pop(host, None)
        where[host] = now
        for times in (self._good, self._bad):
            while times and now - times[oldest := next(iter(times))] > self._within:
                del times[oldest]
        known = len(self._good) + len(self._bad)
        self.lost = known >= self.policy.hosts and len(self._bad) >= self.policy.share * known
        self.armed = bool(self._bad)
        if not self.armed:
            self._hosts.clear()


# -- shared state of the process ------------------------------------------------------------------------------------

_MAX_CLOCKS = 8


class ProcessNetworkGuard:
    """`NetworkGuard` with a lock: all targets of a process share one network."""

    __slots__ = ("_link", "_lock", "armed")

    def __init__(self, policy: NetworkGuardPolicy | None = None) -> None:
        self._link = NetworkGuard(policy or NetworkGuardPolicy())
        self._lock = threading.Lock()
        self.armed = False  # a plain attribute, because the hot path reads it

    @property
    def lost(self) -> bool:
        return self._link.lost

    def record_failure(self, endpoint: Endpoint, fault: Fault, now: float) -> tuple[bool, bool]:
        """Returns whether the local network caused the failure, and whether its state changed."""
        with self._lock:
            before = self._link.lost
            own = self._link.record_failure(endpoint, fault, now)
            self.armed = self._link.armed
            return own, self._link.lost is not before

    def record_answer(self, endpoint: Endpoint, now: float) -> bool:
        """Returns whether the state of the local network changed."""
        with self._lock:
            before = self._link.lost
            self._link.record_answer(endpoint, now)
            self.armed = self._link.armed
            return self._link.lost is not before


class NullNetworkGuard(ProcessNetworkGuard):
    """A disabled guard: no failure is attributed to the local network."""

    __slots__ = ()

    def record_failure(self, endpoint: Endpoint, fault: Fault, now: float) -> tuple[bool, bool]:
        return False, False

    def record_answer(self, endpoint: Endpoint, now: float) -> bool:
        return False


OFF = NullNetworkGuard()
DEFAULT = ProcessNetworkGuard()
_others: OrderedDict[int, tuple[Clock, ProcessNetworkGuard]] = OrderedDict()


def of(clock: Clock) -> ProcessNetworkGuard:
    """Returns the guard that all targets on one clock share. Tests with different clocks do not share one."""
    if clock is SYSTEM:
        return DEFAULT
    entry = _others.pop(id(clock), None) or (clock, ProcessNetworkGuard())
    _others[id(clock)] = entry
    if len(_others) > _MAX_CLOCKS:
        _others.popitem(last=False)
    return entry[1]
