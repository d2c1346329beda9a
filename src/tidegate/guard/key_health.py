"""Health of one key of a target: its state, its changes, and the call that updates it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import IntFlag

from tidegate.faults.fault import Fault, Reason
from tidegate.guard.backoff import Backoff
from tidegate.guard.breaker import Breaker
from tidegate.guard.breaker_state import AdmitToken
from tidegate.guard.cooldown import AUTO, FRESH, CooldownState, admits, release_probe
from tidegate.guard.hold import EndedBy, Hold, HoldReason

# The health of one key of a target, or of one operation of it. A key that never failed has none.

_IDLE = 86_400.0  # a run that could have gone on for so long is forgotten
_IDLE_TOLD = 7 * _IDLE  # the same, where people were told or a rest is being counted up to
_ASKED = (Reason.THROTTLED, Reason.OVERLOADED)


class Notified(IntFlag):
    """What people were told in this episode."""

    NOTHING = 0
    FATAL = 1
    CAP = 2
    BEFORE = 4  # by an earlier process, of something that has not ended since


class KeyHealth:
    """Mutable and small on purpose: there may be a million of them, and each failure changes one."""

    __slots__ = ("failures", "fatal", "fault", "parts", "rest", "since", "notified", "until")

    def __init__(self, now: float) -> None:
        self.failures = 0  # in a row
        self.fatal = False  # the last one stops further calls
        self.fault: Fault | None = None  # the last one
        self.since = now  # when the episode began
        self.until = -math.inf  # no call before; infinite: not until a person acts
        self.notified = Notified.NOTHING
        self.rest: CooldownState = FRESH
        self.parts: dict[str, KeyHealth] | None = None  # operations with a fault of their own

    @property
    def healthy(self) -> bool:
        return not self.failures and not self.parts and self.rest is FRESH and not self.notified

    @property
    def asked(self) -> bool:
        """Whether the service has said how long to wait."""
        fault = self.fault
        return fault is not None and fault.retry_after is not None and fault.reason in _ASKED

    @property
    def refused(self) -> bool:
        """Whether nothing but other credentials ends it."""
        return self.fatal and self.fault is not None and self.fault.reason is Reason.AUTH

    def part(self, operation: str | None) -> KeyHealth | None:
        """The state of one operation; None when it has none of its own."""
        return None if operation is None or self.parts is None else self.parts.get(operation)

    def made_part(self, operation: str, now: float) -> KeyHealth:
        """The same, made if there is none."""
        if self.parts is None:
            self.parts = {}
        return self.parts.setdefault(operation, KeyHealth(now))

    def release(self, probe_until: float, operation: str | None, now: float) -> None:
        """A probe that was reserved until then is free again: its call proved nothing."""
        if self.rest.probing_until == probe_until:
            self.rest = release_probe(self.rest)
        for each in (self, self.part(operation)):
            if each is not None and each.fatal and each.until == probe_until:
                each.until = now

    def idle(self, now: float) -> bool:
        """Whether nobody has gone on with it for so long that it may be forgotten; never what only a person ends."""
        if self.rest.disabled or self.until == math.inf:
            return False
        remembered = _IDLE_TOLD if self.notified or self.rest is not FRESH else _IDLE
        return now - max(self.until, self.since) > remembered

    def holds(self, now: float, operation: str | None = None) -> Iterator[Hold]:
        """Why a call may not go now."""
        fault = self.fault
        if self.failures and now < self.until and fault is not None:
            if self.fatal:
                reason, by = HoldReason.FATAL, EndedBy.PERSON if math.isinf(self.until) else EndedBy.PROBE
            else:
                reason, by = HoldReason.RETRY_AFTER if self.asked else HoldReason.BACKOFF, EndedBy.TIME
            yield Hold(
                reason=reason,
                since=self.since,
                until=None if math.isinf(self.until) else self.until,
                ended_by=by,
                operation=operation,
                code=fault.code,
                message=fault.message,
            )
        rest = self.rest
        if rest.disabled and not admits(rest, now):
            yield Hold(
                reason=HoldReason.COOLDOWN,
                since=now if rest.disabled_at is None else rest.disabled_at,
                until=rest.probing_until if rest.over(now) else rest.until,
                ended_by=EndedBy.PERSON if rest.until is None else EndedBy.TIME,
                operation=operation,
                code=rest.reason,
                message="" if fault is None or rest.by != AUTO else fault.message,
            )

    def ends_with(self, fault: Fault | None) -> bool:
        """Whether its run ends with *fault*: a call that began then knew of every failure since. True without a run."""
        return not self.failures or self.fault is fault

    def record_failure(self, fault: Fault, now: float, wait: float, *, fatal: bool) -> None:
        """One more failure; *wait* seconds until the next call, infinite when a person must act."""
        if not self.failures:
            self.since = now
        self.failures += 1
        self.fault = fault
        self.fatal = fatal
        self.until = now + wait

    def record_late_failure(self, fault: Fault, until: float) -> None:
        """A failure of the same outage: it counts no further, but no call goes before *until*."""
        if until <= self.until or not fault.retry_after:
            return
        self.until = until
        if not self.fatal:
            self.fault = fault

    @property
    def told_of(self) -> bool:
        """Whether people were told of it, or of one of its operations."""
        return bool(self.notified) or any(part.notified for part in (self.parts or {}).values())

    def recover(self) -> Notified:
        """A success: the run is over. Returns what people had been told."""
        told, self.notified = self.notified, Notified.NOTHING
        self.failures = 0
        self.fatal = False
        self.until = -math.inf
        return told


def wait_after(
    fault: Fault,
    failures: int,
    backoff: Backoff | None,
    roll: float,
    *,
    max_retry_after: float,
    reprobe_every: float | None,
    fatal: bool,
) -> float:
    """Seconds until the next call after *fault*, the failure number *failures* + 1 of its run.

    Without a *backoff* only what the service asked for is waited.
    """
    if fatal:
        # Credentials come back only by a person; money and settings may be mended elsewhere, so ask once in a while.
        return reprobe_every if reprobe_every and fault.reason in (Reason.QUOTA, Reason.CONFIG) else math.inf
    asked = min(fault.retry_after or 0.0, max_retry_after)
    return asked if backoff is None else max(backoff.delay(failures, roll), asked)


# What an outcome changed in the state of its key, for those who must be told.


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureChange:
    """What a failure changed: of which operation (None: of the key), in the episode that began at *since*."""

    operation: str | None
    since: float
    news: Notified = Notified.NOTHING  # what people must be told now
    rest: CooldownState | None = None  # the rest that has begun
    failures: int = 0  # in a row, of any code, when it began


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryChange:
    """What a success ended."""

    operation: str | None
    since: float
    told: Notified = Notified.NOTHING  # what people had been told
    enabled: bool = False
    resolved: bool = False  # a fault that people were told of, and that held nothing


# One call that was let through, until its outcome is recorded.


class Admission:
    """How things stood when the call was let through, and what must be given back after it."""

    __slots__ = (
        "breaker",
        "clears",
        "doubted",
        "fault",
        "host",
        "key",
        "operation",
        "part_fault",
        "probe_until",
        "ticket",
        "wait",
    )

    def __init__(
        self, key: Hashable, operation: str | None, *, clears: int = 0, ticket: AdmitToken | None = None
    ) -> None:
        self.key = key
        self.operation = operation
        self.clears = clears  # of the target: tells a call that used replaced credentials
        # The last faults of the key and of the operation when it began: they tell a late result from a new one.
        self.fault: Fault | None = None
        self.part_fault: Fault | None = None
        self.probe_until = -math.inf  # it is the one probe of a rest or of a fatal fault, reserved until then
        self.ticket = ticket  # of the breaker
        self.breaker: Breaker | None = None  # of its key, if the key had one when the call began
        self.doubted = False  # a good answer only by our own patience, or a fault that is not believed yet
        self.host = ""  # that was called, where it is known
        self.wait = 0.0  # seconds before it may go, as the rate says
