"""How a target is, in a few plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidegate.core.storable import key_text
from tidegate.face.explaining import explain_call
from tidegate.face.health import Health
from tidegate.machine.breaker import CLOSED, HALF_OPEN, OPEN, Breaker
from tidegate.machine.gate import HoldReason
from tidegate.runtime.caller import CallPipeline

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
            found.setdefault(key_text(each.key), {
                "key": key_text(each.key), "reason": str(each.hold.reason), "since": each.hold.since,
                "until": each.hold.until, "failures": each.failures, "code": each.hold.code,
                "message": each.hold.message,
            })  # fmt: skip
    return found


def _counted(breaker: Breaker) -> dict[str, int]:
    """While it is open its counts are those of nothing; the failures in a row are those that opened it."""
    return {**breaker.counts._asdict(), "consecutive_failures": breaker.run}
