"""The health of one key of a target, or of one operation of it. A key that never failed has none."""

from __future__ import annotations

import math
from enum import IntFlag

from tidegate.core.backoff import Backoff
from tidegate.core.fault import Fault, Reason
from tidegate.machine.cooldown import FRESH, Rest, admits
from tidegate.machine.gate import EndedBy, Hold, HoldReason


class Told(IntFlag):
    """What people were told in this episode."""

    NOTHING = 0
    FATAL = 1
    CAP = 2


class KeyState:
    """Mutable and small on purpose: there may be a million of them, and each failure changes one."""

    __slots__ = ("failures", "fault", "parts", "rest", "since", "told", "until")

    def __init__(self, now: float) -> None:
        self.failures = 0  # in a row
        self.fault: Fault | None = None  # the last one
        self.since = now  # when the episode began
        self.until = -math.inf  # no call before; infinite: not until a person acts
        self.told = Told.NOTHING
        self.rest: Rest = FRESH
        self.parts: dict[str, KeyState] | None = None  # operations with a fault of their own

    @property
    def fatal(self) -> bool:
        return self.fault is not None and self.fault.fatal and self.failures > 0

    @property
    def healthy(self) -> bool:
        return not self.failures and not self.parts and self.rest is FRESH and not self.told

    def hold(self, now: float, operation: str | None = None) -> Hold | None:
        """Why a call may not go now; fatal before cooldown before backoff."""
        fault = self.fault
        if self.failures and now < self.until and fault is not None and fault.fatal:
            by = EndedBy.PERSON if math.isinf(self.until) else EndedBy.PROBE
            return _hold(HoldReason.FATAL, self, fault, operation, by)
        rest = self.rest
        if rest.disabled and not admits(rest, now):
            end = rest.probing_until if rest.until is not None and now >= rest.until else rest.until
            by = EndedBy.PERSON if rest.until is None else EndedBy.TIME
            return Hold(
                reason=HoldReason.COOLDOWN,
                since=rest.disabled_at or now,
                until=end,
                ended_by=by,
                operation=operation,
                code=rest.reason,
                message="" if fault is None else fault.message,
            )
        if self.failures and now < self.until and fault is not None:
            asked = fault.retry_after is not None and fault.reason in (Reason.THROTTLED, Reason.OVERLOADED)
            return _hold(HoldReason.RETRY_AFTER if asked else HoldReason.BACKOFF, self, fault, operation, EndedBy.TIME)
        return None

    def failed(self, fault: Fault, now: float, wait: float) -> None:
        """One more failure; *wait* seconds until the next call, infinite when a person must act."""
        if not self.failures:
            self.since = now
        self.failures += 1
        self.fault = fault
        self.until = now + wait

    def recovered(self) -> Told:
        """A success: the run is over. Returns what people had been told."""
        told, self.told = self.told, Told.NOTHING
        self.failures = 0
        self.until = -math.inf
        return told


def wait_after(
    fault: Fault, failures: int, backoff: Backoff, roll: float, *, most_asked: float, reprobe: float | None
) -> float:
    """Seconds until the next call after *fault*, the failure number *failures* + 1 of its run."""
    if fault.fatal:
        # Credentials come back only by a person; money and settings may be mended elsewhere, so ask once in a while.
        return reprobe if reprobe and fault.reason in (Reason.QUOTA, Reason.CONFIG) else math.inf
    asked = min(fault.retry_after or 0.0, most_asked)
    return max(backoff.delay(failures, roll), asked)


def _hold(reason: HoldReason, state: KeyState, fault: Fault, operation: str | None, by: EndedBy) -> Hold:
    return Hold(
        reason=reason,
        since=state.since,
        until=None if math.isinf(state.until) else state.until,
        ended_by=by,
        operation=operation,
        code=fault.code,
        message=fault.message,
    )
