"""The health of one key, as people and programs read it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from tidegate.core.fault import Fault
from tidegate.machine.gate import Hold, rank
from tidegate.machine.keystate import KeyHealth
from tidegate.runtime.caller import CallPipeline


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
