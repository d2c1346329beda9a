"""Health of targets and keys as values, and the reasons for a hold."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from tidegate.faults.fault import Fault
from tidegate.guard.breaker import Breaker
from tidegate.guard.breaker_state import CLOSED, HALF_OPEN, OPEN
from tidegate.guard.hold import EndedBy, Hold, HoldReason, rank
from tidegate.guard.key_health import KeyHealth
from tidegate.guard.pipeline import CallPipeline
from tidegate.validation import key_text

# -- health of a key ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A failing key, or one failing operation of it. Times are UNIX time."""

    target: str
    key: Hashable
    operation: str | None
    failures: int
    since: float
    fault: Fault | None
    hold: Hold | None  # None: the next call is allowed
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


# -- reasons for a hold ---------------------------------------------------------------------------------------------


def explain_call(pipeline: CallPipeline, key: Hashable, operation: str | None) -> list[Hold]:
    """Returns all holds of a call, in gate order and wall-clock time. Without *operation*, for all breaker groups."""
    every = operation is None and pipeline.key_breakers is None
    breakers = list(pipeline.breakers.values()) if every else [pipeline.breaker(operation, key)]
    holds = [pipeline.shown(hold) for hold in pipeline.keys.holds(key, operation)]
    holds += [
        hold for breaker in breakers if breaker is not None and (hold := _breaker_hold(pipeline, breaker)) is not None
    ]
    if pipeline.limits is not None:
        holds += [pipeline.shown(hold) for hold in pipeline.limits.holds(pipeline.clock.monotonic())]
    return holds


def _breaker_hold(pipeline: CallPipeline, breaker: Breaker) -> Hold | None:
    state = breaker.state
    if state == CLOSED or (state == HALF_OPEN and breaker.counts.requests < breaker.policy.max_requests):
        return None  # a call is allowed
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


# -- summary of a target --------------------------------------------------------------------------------------------

_RANKS = {CLOSED: 0, HALF_OPEN: 1, OPEN: 2}
_MAX_KEYS = 50  # keys in a summary


def summary_of(pipeline: CallPipeline, unhealthy: Sequence[Health]) -> dict[str, object]:
    """Returns the status for the store. *unhealthy* has all failing keys and operations."""
    holds = [health.hold for health in unhealthy if health.hold is not None]
    of_keys = [] if pipeline.key_breakers is None else pipeline.key_breakers.all()
    asked = [key for key, breaker in of_keys if breaker.state != CLOSED][:_MAX_KEYS] or [None]
    shut = holds + [
        hold for key in asked for hold in explain_call(pipeline, key, None) if hold.reason is HoldReason.BREAKER
    ]
    # Breakers of keys share one name. The worst state represents them.
    worst = [max((breaker for _, breaker in of_keys), key=lambda breaker: _RANKS[breaker.state])] if of_keys else []
    return {
        "breakers": {
            breaker.name: {"state": breaker.state, "calls": sum(breaker.totals.values()), **_counted(breaker)}
            for breaker in (*pipeline.breakers.values(), *worst)
        },
        "unhealthy": len(unhealthy),
        "held": len(holds),
        "reasons": sorted({str(hold.reason) for hold in holds}),
        "codes": sorted({health.fault.code for health in unhealthy if health.fault is not None}),
        "since": min((hold.since for hold in shut), default=None),
        "until": min((hold.until for hold in shut if hold.until is not None), default=None),
        "keys": list(_held_keys(unhealthy).values())[:_MAX_KEYS],
    }


def _held_keys(unhealthy: Iterable[Health]) -> dict[str, dict[str, object]]:
    """Returns the hold of each key, or else of one of its operations."""
    keys: dict[str, dict[str, object]] = {}
    for health in unhealthy:
        if health.hold is not None:
            keys.setdefault(
                key_text(health.key),
                {
                    "key": key_text(health.key),
                    "reason": str(health.hold.reason),
                    "since": health.hold.since,
                    "until": health.hold.until,
                    "failures": health.failures,
                    "code": health.hold.code,
                    "message": health.hold.message,
                },
            )
    return keys


def _counted(breaker: Breaker) -> dict[str, int]:
    """The counts of a breaker. While it is open they are 0, and the consecutive failures are those that opened it."""
    return {**breaker.counts._asdict(), "consecutive_failures": breaker.run}
