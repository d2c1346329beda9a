"""Health of targets and keys as values, and the reasons for a hold."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.faults.fault import Fault
from tidegate.guard.breaker import Breaker
from tidegate.guard.breaker_state import CLOSED, HALF_OPEN, OPEN
from tidegate.guard.hold import EndedBy, Hold, HoldReason, rank
from tidegate.guard.key_health import KeyHealth
from tidegate.guard.pipeline import CallPipeline
from tidegate.validation import key_text

# The health of one key, as people and programs read it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A key, or one operation of it, that is not well. Times are UNIX time."""

    target: str
    key: Hashable
    operation: str | None
    failures: int
    since: float
    fault: Fault | None
    hold: Hold | None  # None: the next call may go
    disabled_by: str | None


def health_of(pipeline: CallPipeline, key: Hashable, operation: str | None, state: KeyHealth) -> Health:
    hold = min(state.holds(pipeline.clock.monotonic(), operation), key=rank, default=None)
    return Health(
        target=pipeline.policy.name,
        key=key,
        operation=operation,
        failures=state.failures,
        since=state.since + pipeline.clock.now() - pipeline.clock.monotonic(),
        fault=state.fault,
        hold=None if hold is None else pipeline.shown(hold),
        disabled_by=state.rest.by if state.rest.disabled else None,
    )


# Why is this not running, and when will it? Every gate that is shut, in the order in which it is asked.


def explain_call(pipeline: CallPipeline, key: Hashable, operation: str | None) -> list[Hold]:
    """In wall time; without an *operation*, the breakers of all groups."""
    every = operation is None and pipeline.key_breakers is None
    breakers = list(pipeline.breakers.values()) if every else [pipeline.breaker(operation, key)]
    found = [pipeline.shown(hold) for hold in pipeline.keys.holds(key, operation)]
    found += [
        hold for breaker in breakers if breaker is not None and (hold := _breaker_hold(pipeline, breaker)) is not None
    ]
    if pipeline.limits is not None:
        found += [pipeline.shown(hold) for hold in pipeline.limits.holds(pipeline.clock.monotonic())]
    return found


def _breaker_hold(pipeline: CallPipeline, breaker: Breaker) -> Hold | None:
    state = breaker.state
    if state == CLOSED or (state == HALF_OPEN and breaker.counts.requests < breaker.policy.max_requests):
        return None  # a call would go
    to_wall = pipeline.clock.now() - breaker._clock()
    until = breaker.until
    by = EndedBy.CALL if state == HALF_OPEN else EndedBy.PROBE if until is None else EndedBy.TIME
    return Hold(
        reason=HoldReason.BREAKER,
        since=breaker.since + to_wall,
        until=None if until is None else until + to_wall,
        ended_by=by,
        message=f"The breaker of {breaker.name} is {state}.",
    )


# How a target is, in a few plain values.

_RANKS = {CLOSED: 0, HALF_OPEN: 1, OPEN: 2}
_MAX_KEYS = 50  # that a summary names


def summary_of(pipeline: CallPipeline, ill: Sequence[Health]) -> dict[str, Any]:
    """What a store is told of it; *ill* is every key and operation that is not well."""
    holds = [each.hold for each in ill if each.hold is not None]
    of_keys = [] if pipeline.key_breakers is None else pipeline.key_breakers.all()
    asked = [key for key, breaker in of_keys if breaker.state != CLOSED][:_MAX_KEYS] or [None]
    shut = holds + [
        hold for key in asked for hold in explain_call(pipeline, key, None) if hold.reason is HoldReason.BREAKER
    ]
    # Of the breakers of keys, which have one name, the one that is worst off speaks for all.
    worst = [max((breaker for _, breaker in of_keys), key=lambda each: _RANKS[each.state])] if of_keys else []
    return {
        "breakers": {
            each.name: {"state": each.state, "calls": sum(each.totals.values()), **_counted(each)}
            for each in (*pipeline.breakers.values(), *worst)
        },
        "unhealthy": len(ill),
        "held": len(holds),
        "reasons": sorted({str(hold.reason) for hold in holds}),
        "codes": sorted({each.fault.code for each in ill if each.fault is not None}),
        "since": min((hold.since for hold in shut), default=None),
        "until": min((hold.until for hold in shut if hold.until is not None), default=None),
        "keys": list(_held_keys(ill).values())[:_MAX_KEYS],
    }


def _held_keys(ill: Iterable[Health]) -> dict[str, dict[str, Any]]:
    """What holds each key, or else one of its operations, as people read it."""
    found: dict[str, dict[str, Any]] = {}
    for each in ill:
        if each.hold is not None:
            found.setdefault(
                key_text(each.key),
                {
                    "key": key_text(each.key),
                    "reason": str(each.hold.reason),
                    "since": each.hold.since,
                    "until": each.hold.until,
                    "failures": each.failures,
                    "code": each.hold.code,
                    "message": each.hold.message,
                },
            )
    return found


def _counted(breaker: Breaker) -> dict[str, int]:
    """While it is open its counts are those of nothing; the failures in a row are those that opened it."""
    return {**breaker.counts._asdict(), "consecutive_failures": breaker.run}
