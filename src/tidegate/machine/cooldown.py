"""Cooldown: a key that keeps failing in the same way rests, then gets one probe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from tidegate.core.fault import Fault, Reach, Reason
from tidegate.core.policy import Cooldown

AUTO = "auto"
# How long a probe may take before another one is let through.
PROBE_TIME = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The run of failures of one key, and whether it is disabled because of it."""

    run_code: str | None = None
    run_length: int = 0
    disabled_at: float | None = None
    until: float | None = None  # None while disabled: only a person ends it
    reason: str | None = None
    by: str | None = None
    probing_until: float | None = None

    @property
    def disabled(self) -> bool:
        return self.disabled_at is not None

    def over(self, now: float) -> bool:
        """Whether the time of the rest has passed, so that one call may prove that it is well."""
        return self.until is not None and now >= self.until

    def admits(self, now: float) -> bool:
        """See `admits`. The methods are for applications, which keep the rests of their keys in tables of their own."""
        return admits(self, now)

    def after_success(self, now: float) -> tuple[Rest, RestChange]:
        return succeeded(self, now)

    def after_fault(self, policy: Cooldown, fault: Fault, now: float) -> tuple[Rest, RestChange]:
        return failed(self, policy, fault, now)


class RestChange(StrEnum):
    NONE = "none"
    DISABLED = "disabled"
    ENABLED = "enabled"


FRESH = Rest()


def admits(rest: Rest, now: float) -> bool:
    """Whether a call may go: not disabled, or the rest is over and no other probe is under way."""
    if not rest.disabled:
        return True
    return rest.over(now) and (rest.probing_until is None or now >= rest.probing_until)


def probing(rest: Rest, until: float) -> Rest:
    """The rest with its one probe given out until then."""
    return replace(rest, probing_until=until)


def given_back(rest: Rest) -> Rest:
    """The rest with its probe free again: the call proved nothing."""
    return replace(rest, probing_until=None) if rest.probing_until is not None else rest


def succeeded(rest: Rest, now: float) -> tuple[Rest, RestChange]:
    """A success ends the run, and the rest if its time has passed: a late answer does not undo what was ordered."""
    if rest.disabled and not rest.over(now):
        return replace(rest, run_code=None, run_length=0), RestChange.NONE
    return FRESH, RestChange.ENABLED if rest.disabled else RestChange.NONE


def failed(rest: Rest, policy: Cooldown, fault: Fault, now: float) -> tuple[Rest, RestChange]:
    """One more failure.

    Throttling, cancelling and our own faults neither count nor break a run; another code starts a new one. What fails
    while the rest lasts was let through before it, and is part of what led to it.
    """
    if fault.reason in (Reason.THROTTLED, Reason.CANCELLED) or fault.reach is Reach.SELF:
        return given_back(rest), RestChange.NONE
    if rest.disabled and not rest.over(now):
        return rest, RestChange.NONE
    code = policy.counted(fault.code)
    run = rest.run_length + 1 if rest.run_code == code else 1
    counted = replace(rest, run_code=code, run_length=run, probing_until=None)
    row = policy.rests.get(code)
    if row is None:
        return counted, RestChange.NONE
    times, length = row
    if rest.disabled or run >= times:  # on probation, one failure is enough
        return replace(counted, disabled_at=now, until=now + length, reason=code, by=AUTO), RestChange.DISABLED
    return counted, RestChange.NONE


def disabled(rest: Rest, *, until: float | None, by: str, reason: str, now: float) -> Rest:
    """Disabled by a person, or for a reason that is no failure."""
    return replace(rest, disabled_at=now, until=until, by=by, reason=reason, probing_until=None)
