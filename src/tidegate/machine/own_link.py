"""When most hosts fail at once it is our own network, and nobody else is to blame."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.checks import share, whole
from tidegate.core.duration import Duration, seconds
from tidegate.core.fault import Fault

_NETWORK_CODES = frozenset({"network", "timeout", "cut_short"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfGuard:
    """*share* of at least *hosts* distinct hosts failing with network faults within *within* is our own link."""

    hosts: int = 10
    share: float = 0.5
    within: Duration = "60s"

    def __post_init__(self) -> None:
        whole(self.hosts, field="SelfGuard.hosts", least=2)
        share(self.share, field="SelfGuard.share")
        object.__setattr__(self, "within", seconds(self.within, field="SelfGuard.within", least=0.001))


class OwnLink:
    """Which hosts answered and which did not, within the last minute. The caller holds the lock.

    Successes are only recorded while it is armed, which one network fault does: the healthy path asks one flag.
    """

    __slots__ = ("_bad", "_good", "armed", "lost", "policy", "since")

    def __init__(self, policy: SelfGuard) -> None:
        self.policy = policy
        self.armed = False
        self.lost = False
        self.since = 0.0
        self._good: dict[str, float] = {}
        self._bad: dict[str, float] = {}

    def failed(self, host: str, fault: Fault, now: float) -> bool:
        """Whether this failure is our own; arms the guard."""
        if fault.code not in _NETWORK_CODES:
            self.answered(host, now)  # whatever it said, it was reached
            return False
        self._good.pop(host, None)
        self._bad.pop(host, None)
        self._bad[host] = now
        self.armed = True
        return self._judge(now)

    def answered(self, host: str, now: float) -> None:
        if self.armed:
            self._bad.pop(host, None)
            self._good.pop(host, None)
            self._good[host] = now
            self._judge(now)

    def _judge(self, now: float) -> bool:
        oldest = now - seconds(self.policy.within)
        for seen in (self._good, self._bad):
            for host in [host for host, at in seen.items() if at < oldest]:
                del seen[host]
        known = len(self._good) + len(self._bad)
        lost = known >= self.policy.hosts and len(self._bad) >= self.policy.share * known
        if lost and not self.lost:
            self.since = now
        self.lost = lost
        self.armed = bool(self._bad)
        return lost
