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

# -- state ----------------------------------------------------------------------------------------------------------

_IDLE = 86_400.0  # seconds after which an idle run is forgotten
_IDLE_TOLD = 7 * _IDLE  # the same if a notice was sent or a cooldown counts the run
_ASKED = (Reason.THROTTLED, Reason.OVERLOADED)
# The wait after a 429 without Retry-After, if the target has no backoff. A success ends the growth.
THROTTLE = Backoff(1, cap=60, factor=2, jitter=0.25)


class Notified(IntFlag):
    """The notices of this episode that were sent."""

    NOTHING = 0
    FATAL = 1
    CAP = 2
    BEFORE = 4  # sent by an earlier process, and not resolved since


class KeyHealth:
    """The health of one key or operation. A key that never failed has none.

    Mutable and small, because there may be a million of them, and each failure changes one.
    """

    __slots__ = ("failures", "fatal", "fault", "parts", "rest", "since", "notified", "throttles", "until")

    def __init__(self, now: float) -> None:
        self.failures = 0  # consecutive
        self.throttles = 0  # those of them because of throttling
        self.fatal = False  # the last fault holds further calls
        self.fault: Fault | None = None  # the last one
        self.since = now  # start of the episode
        self.until = -math.inf  # no call before; infinite: until an operator acts
        self.notified = Notified.NOTHING
        self.rest: CooldownState = FRESH
        self.parts: dict[str, KeyHealth] | None = None  # operations with their own fault

    @property
    def healthy(self) -> bool:
        return not self.failures and not self.parts and self.rest is FRESH and not self.notified

    @property
    def asked(self) -> bool:
        """Whether the service sent a Retry-After."""
        fault = self.fault
        return fault is not None and fault.retry_after is not None and fault.reason in _ASKED

    @property
    def refused(self) -> bool:
        """Whether only new credentials end it."""
        return self.fatal and self.fault is not None and self.fault.reason is Reason.AUTH

    def part(self, operation: str | None) -> KeyHealth | None:
        """Returns the state of one operation, or None if it has none."""
        return None if operation is None or self.parts is None else self.parts.get(operation)

    def made_part(self, operation: str, now: float) -> KeyHealth:
        """Returns the state of one operation, and creates it if needed."""
        if self.parts is None:
            self.parts = {}
        return self.parts.setdefault(operation, KeyHealth(now))

    def release(self, probe_until: float, operation: str | None, now: float) -> None:
        """Releases a probe that was reserved until *probe_until*: its call proved nothing."""
        if self.rest.probing_until == probe_until:
            self.rest = release_probe(self.rest)
        for state in (self, self.part(operation)):
            if state is not None and state.fatal and state.until == probe_until:
                state.until = now

    def idle(self, now: float) -> bool:
        """Whether it was idle so long that it may be forgotten. False if only an operator ends it."""
        if self.rest.disabled or self.until == math.inf:
            return False
        remembered = _IDLE_TOLD if self.notified or self.rest is not FRESH else _IDLE
        return now - max(self.until, self.since) > remembered

    def holds(self, now: float, operation: str | None = None) -> Iterator[Hold]:
        """Yields the reasons why a call may not go now."""
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
        """Whether *fault* is the last of the run: then the call knew of every failure. True without a run."""
        return not self.failures or self.fault is fault

    def record_failure(self, fault: Fault, now: float, wait: float, *, fatal: bool) -> None:
        """Records a failure. The next call goes after *wait* seconds. Infinite: an operator must act."""
        if not self.failures:
            self.since = now
        self.failures += 1
        self.throttles += fault.reason is Reason.THROTTLED
        self.fault = fault
        self.fatal = fatal
        self.until = now + wait

    def record_late_failure(self, fault: Fault, until: float) -> None:
        """Records another failure of the same outage. It does not count, but no call goes before *until*."""
        if until <= self.until:
            return
        self.until = until
        if not self.fatal:
            self.fault = fault

    @property
    def told_of(self) -> bool:
        """Whether a notice was sent for it or for one of its operations."""
        return bool(self.notified) or any(part.notified for part in (self.parts or {}).values())

    def recover(self) -> Notified:
        """Ends the run after a success. Returns the notices that were sent."""
        sent, self.notified = self.notified, Notified.NOTHING
        self.failures = self.throttles = 0
        self.fatal = False
        self.until = -math.inf
        return sent


def wait_after(
    fault: Fault,
    failures: int,
    backoff: Backoff | None,
    roll: float,
    *,
    max_retry_after: float,
    reprobe_every: float | None,
    fatal: bool,
    throttles: int | None = None,
) -> float:
    """Returns the seconds until the next call after *fault*, which is failure *failures* + 1 of its run.

    Without a *backoff* it is only the Retry-After of the service. If the service asks to slow down without one, it is
    `THROTTLE`, after *throttles* such failures. None: then the wait is 0.
    """
    if fatal:
        # Only the user can renew credentials. Quota and configuration may be fixed elsewhere, so a call checks from
        # time to time.
        return reprobe_every if reprobe_every and fault.reason in (Reason.QUOTA, Reason.CONFIG) else math.inf
    requested = min(fault.retry_after or 0.0, max_retry_after)
    if backoff is not None:
        return max(backoff.delay(failures, roll), requested)
    if not requested and throttles is not None and fault.reason is Reason.THROTTLED:
        return THROTTLE.delay(throttles, roll)
    return requested


# -- changes to publish ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureChange:
    """What a failure changed, for *operation* (None: the key), in the episode that began at *since*."""

    operation: str | None
    since: float
    news: Notified = Notified.NOTHING  # notices to send now
    rest: CooldownState | None = None  # the cooldown that began
    failures: int = 0  # consecutive failures of any code when it began


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryChange:
    """What a success ended."""

    operation: str | None
    since: float
    told: Notified = Notified.NOTHING  # notices that were sent
    enabled: bool = False
    resolved: bool = False  # a fault with a notice that held no calls


# -- admitted call --------------------------------------------------------------------------------------------------


class Admission:
    """The state of a key when its call was admitted, and what to release after it."""

    __slots__ = (
        "began_at",
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
        self,
        key: Hashable,
        operation: str | None,
        *,
        clears: int = 0,
        ticket: AdmitToken | None = None,
        began_at: float | None = None,
    ) -> None:
        self.key = key
        self.operation = operation
        self.clears = clears  # clears of the target at admission: identifies calls with replaced credentials
        # The last faults of the key and of the operation at admission: they identify late results.
        self.fault: Fault | None = None
        self.part_fault: Fault | None = None
        self.probe_until = -math.inf  # end of its reservation, if it is the probe of a cooldown or of a fatal fault
        self.ticket = ticket  # of the breaker
        self.began_at = began_at  # on the clock of the breaker, if it has one
        self.breaker: Breaker | None = None  # the breaker of its key, if the key had one at admission
        self.doubted = False  # a success by our own timeout, or an unconfirmed fault
        self.host = ""  # if known
        self.wait = 0.0  # seconds to wait because of the rate
