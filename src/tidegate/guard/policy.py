"""The policy of a target for workers. The state is in the store, shared by all workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.durations import seconds
from tidegate.faults.fault import Fault
from tidegate.faults.rule import Pack
from tidegate.guard.backoff import Backoff
from tidegate.guard.breaker_policy import BreakerPolicy
from tidegate.guard.capacity import Capacity
from tidegate.guard.cooldown import Cooldown
from tidegate.guard.limits import Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRules:
    """The options of one target, for claiming and settling jobs."""

    name: str
    rule_pack: Pack | None = None
    backoff: Backoff | None = None  # None: a failing job backs off, its key does not
    cooldown: Cooldown | None = None
    breaker: BreakerPolicy | None = None
    rate: Rate | None = None
    concurrency: int | None = None
    capacity: Capacity | None = None
    when_open: str = "hold"
    max_retry_after: float = 3600.0
    reprobe_every: float | None = 3600.0
    cap_notice: bool = True
    probe: Callable[[], Any] | None = None
    probe_every: float = 10.0
    probe_after: AbstractSet[str] | bool = False  # codes after which the probe runs immediately; True: all that count
    declared_in: str = ""  # the module of the jobs that use it

    @property
    def limited(self) -> bool:
        """Whether its row must be locked while jobs are claimed."""
        return bool(self.breaker or self.rate or self.concurrency or self.capacity)

    @property
    def endless(self) -> bool:
        """Whether its breaker may be open without an end: until a probe succeeds or an operator acts."""
        return self.probe is not None or (self.breaker is not None and self.breaker.timeout is None)

    def suspects(self, fault: Fault) -> bool:
        """Whether this failure is a reason to run the probe now."""
        if self.probe is None or self.breaker is None or not self.probe_after:
            return False
        return bool(fault.counts_as_failure) if self.probe_after is True else fault.code in self.probe_after

    def shown(self) -> str:
        """Returns the options as JSON, for readers of the store."""
        options: dict[str, object] = {"when_open": self.when_open}
        if self.declared_in:
            options["declared_in"] = self.declared_in
        if self.backoff is not None:
            options["backoff"] = {
                "base": self.backoff.base,
                "cap": self.backoff.cap,
                "factor": self.backoff.factor,
                "steps": list(self.backoff.steps),
            }
        if self.cooldown is not None:
            options["cooldown"] = {code: [times, rest] for code, (times, rest) in self.cooldown.rests.items()}
        if self.breaker is not None:
            options["breaker"] = _breaker_shown(self.breaker)
        if self.probe is not None:
            options["probe_every"] = self.probe_every
            if self.breaker is not None and self.probe_after:
                options["probe_after"] = True if self.probe_after is True else sorted(self.probe_after)
        if self.rate is not None:
            options["rate"] = {"count": self.rate.count, "per": seconds(self.rate.per), "burst": self.rate.burst}
        if self.concurrency is not None:
            options["concurrency"] = self.concurrency
        if self.capacity is not None:
            options["capacity"] = asdict(self.capacity.limits)
        return json.dumps(options, sort_keys=True)


def _breaker_shown(policy: BreakerPolicy) -> dict[str, object]:
    """Returns the options of a breaker, without those of the ratio if the user has a custom rule."""
    options: dict[str, object] = {
        "max_requests": policy.max_requests,
        "open_for": None if policy.timeout is None else policy.open_for,
        "consecutive": policy.consecutive,
        "interval": seconds(policy.interval),
        "window": None if policy.window is None else seconds(policy.window),
    }
    if policy.max_timeout is not None:
        options |= {"max_timeout": seconds(policy.max_timeout), "growth": policy.growth}
    if policy.trip is None:
        options |= {"min_requests": policy.min_requests, "failure_ratio": policy.failure_ratio}
    return options
