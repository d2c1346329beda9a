"""Why is this not running, and when will it? Every gate that is shut, in the order in which it is asked."""

from __future__ import annotations

from collections.abc import Hashable

from tidegate.machine.breaker import CLOSED, HALF_OPEN, Breaker
from tidegate.machine.gate import EndedBy, Hold, HoldReason
from tidegate.runtime.caller import CallPipeline


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
        reason=HoldReason.BREAKER, since=breaker.since + to_wall, until=None if until is None else until + to_wall,
        ended_by=by, message=f"The breaker of {breaker.name} is {state}.",
    )  # fmt: skip
