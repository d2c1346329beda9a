"""The health of one key as a row. Pure functions for failures and successes.

The rules are those of a guarded call: fatal before cooldown before backoff, and one probe when the hold has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.events import EventKind, NoticeKind
from tidegate.faults.fault import Fault, Reach, Reason
from tidegate.guard import cooldown as resting
from tidegate.guard.cooldown import FRESH, CooldownChange, CooldownState
from tidegate.guard.hold import HoldReason
from tidegate.guard.key_health import Notified, wait_after
from tidegate.guard.policy import TargetRules
from tidegate.targets.table import NOT_HELD, StoredKeyHealth


@dataclass(frozen=True, slots=True)
class Changed:
    """The new row of a key, and the events and notices of the change."""

    row: StoredKeyHealth
    news: tuple[tuple[EventKind, dict[str, object]], ...] = ()
    notices: tuple[NoticeKind, ...] = ()


def is_answer(fault: Fault, rules: TargetRules) -> bool:
    """Whether the fault proves the service healthy: it responded, and rejected this one item."""
    return fault.counts_as_failure is False and rules.cooldown is None


def record_failure(
    row: StoredKeyHealth, rules: TargetRules, fault: Fault, *, claimed_at: float, now: float, roll: float
) -> Changed:
    """Applies a failure that reaches the key. *claimed_at* distinguishes a late failure from a new one."""
    cleared = not row.failures and row.failed_at > 0
    if cleared and claimed_at <= row.failed_at:
        return Changed(row)  # the attempt used credentials that were replaced since
    rest, change = _rested(row.rest, rules, fault, now)
    news: list[tuple[EventKind, dict[str, object]]] = []
    told: list[NoticeKind] = []
    if change is CooldownChange.DISABLED:
        told.append(NoticeKind.DISABLED)
        news.append(
            (
                EventKind.TARGET_DISABLED,
                {
                    "reason": rest.reason,
                    "by": rest.by,
                    "run_length": rest.failing_count,
                    "consecutive_errors": row.failures + 1,
                },
            )
        )
    row = replace(row, rest=rest)
    if not _reaches_lane(rules, fault):
        return Changed(_reasoned(row, rules, fault=None), tuple(news), tuple(told))
    late = row.failures > 0 and claimed_at <= row.failed_at and not fault.fatal
    if late and change is CooldownChange.NONE:
        return Changed(_held_late(row, rules, fault, now))
    wait = _wait(rules, fault, row.failures, roll)
    row = replace(
        row,
        since=row.since if row.failures else now,
        until=now + wait,
        failed_at=now,
        failures=row.failures + 1,
        code=fault.code,
        message=fault.message,
        probe=None,
    )
    row = _reasoned(row, rules, fault)
    if row.reason == HoldReason.FATAL and not row.told & Notified.FATAL:
        row = replace(row, told=row.told | Notified.FATAL)
        news.append((EventKind.TARGET_FATAL, {}))
        told.append(NoticeKind.FATAL)
    elif row.reason != HoldReason.FATAL and not row.told & Notified.CAP and _at_cap(rules, row.failures):
        row = replace(row, told=row.told | Notified.CAP)
        told.append(NoticeKind.CAP)
    return Changed(row, tuple(news), tuple(told))


def record_success(row: StoredKeyHealth, now: float) -> Changed:
    """Clears the failures of a key, and its cooldown if that has ended. A late success does not end a cooldown."""
    rest, change = resting.record_success(row.rest, now)
    news: list[tuple[EventKind, dict[str, object]]] = []
    if change is CooldownChange.ENABLED:
        news.append((EventKind.TARGET_ENABLED, {"by": resting.AUTO}))
    if row.told:
        news.append((EventKind.TARGET_RECOVERED, {}))
    told = (NoticeKind.RECOVERED,) if news else ()
    well = fresh(row.target, row.lane, row.since)
    if rest.disabled:
        well = replace(well, reason=str(HoldReason.COOLDOWN), until=rest.until, rest=rest)
    return Changed(well, tuple(news), told)


def _rested(rest: CooldownState, rules: TargetRules, fault: Fault, now: float) -> tuple[CooldownState, CooldownChange]:
    if rules.cooldown is None:
        return rest, CooldownChange.NONE
    if fault.own_bug:  # like `Reach.SELF`: it neither counts as a failure nor resets the count
        return resting.release_probe(rest), CooldownChange.NONE
    return resting.record_failure(rest, rules.cooldown, fault, now)


def _reaches_lane(rules: TargetRules, fault: Fault) -> bool:
    if fault.reach is Reach.SELF or fault.reason is Reason.CANCELLED or fault.own_bug:
        return False
    if fault.reach.rank < Reach.CREDENTIAL.rank and not _governed(rules, fault):
        return False
    return fault.fatal or rules.backoff is not None or bool(fault.retry_after) or rules.cooldown is not None


def _reasoned(row: StoredKeyHealth, rules: TargetRules, fault: Fault | None) -> StoredKeyHealth:
    """Sets the most important hold reason of the row, and its end."""
    if fault is not None and fault.fatal and not _governed(rules, fault):
        return replace(row, reason=str(HoldReason.FATAL))
    if fault is None and row.reason == HoldReason.FATAL:
        return row
    if row.rest.disabled:
        return replace(row, reason=str(HoldReason.COOLDOWN), until=row.rest.until)
    if fault is None:
        return row
    if row.until is not None and row.until <= row.failed_at:
        return replace(row, reason=NOT_HELD, until=0.0)
    asked = fault.retry_after is not None and fault.reason in (Reason.THROTTLED, Reason.OVERLOADED)
    return replace(row, reason=str(HoldReason.RETRY_AFTER if asked else HoldReason.BACKOFF))


def _held_late(row: StoredKeyHealth, rules: TargetRules, fault: Fault, now: float) -> StoredKeyHealth:
    """Applies a failure that started before the last one was known. It is the same outage, so it is not counted.

    A longer Retry-After extends the hold. A fatal fault and a cooldown remain.
    """
    until = now + min(fault.retry_after or 0.0, rules.max_retry_after)
    if row.reason == HoldReason.FATAL or row.rest.disabled or row.until is None or until <= max(row.until, now):
        return row
    row = replace(row, until=until, failed_at=now, code=fault.code, message=fault.message)
    return _reasoned(row, rules, fault)


def _at_cap(rules: TargetRules, failures: int) -> bool:
    """Whether the backoff has reached its cap, and the policy wants a notice for that."""
    return rules.cap_notice and rules.backoff is not None and rules.backoff.at_cap(failures - 1)


def _governed(rules: TargetRules, fault: Fault) -> bool:
    """Whether the cooldown handles this code instead of the fatal state."""
    return rules.cooldown is not None and rules.cooldown.governs(fault.code)


def _wait(rules: TargetRules, fault: Fault, failures: int, roll: float) -> float:
    return wait_after(
        fault,
        failures,
        rules.backoff,
        roll,
        max_retry_after=rules.max_retry_after,
        reprobe_every=rules.reprobe_every,
        fatal=fault.fatal and not _governed(rules, fault),
    )


def fresh(target: str, key_text: str, now: float) -> StoredKeyHealth:
    """A key without state."""
    return StoredKeyHealth(target=target, lane=key_text, since=now, rest=FRESH)
