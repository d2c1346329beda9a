"""When a gate was shut and why, put together from what it says of itself after each call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.machine.gate import EndedBy, Hold, HoldReason


class HoldKind(StrEnum):
    """Why calls were held, or, half-open, let through one by one."""

    BACKOFF = "backoff"
    RETRY_AFTER = "retry-after"
    OPEN = "breaker open"
    HALF_OPEN = "half-open"
    COOLDOWN = "cooldown"
    FATAL = "fatal"
    OTHER = "held"


_OF_REASON = {
    HoldReason.BACKOFF: HoldKind.BACKOFF,
    HoldReason.RETRY_AFTER: HoldKind.RETRY_AFTER,
    HoldReason.BREAKER: HoldKind.OPEN,
    HoldReason.COOLDOWN: HoldKind.COOLDOWN,
    HoldReason.FATAL: HoldKind.FATAL,
}


@dataclass(frozen=True, slots=True)
class HoldSpan:
    """Seconds since the start; *end* is outside."""

    start: float
    end: float
    why: HoldKind


class HoldSpans:
    """The spans so far. What a gate says holds until it says something else; only time passes in between."""

    def __init__(self) -> None:
        self._past: list[HoldSpan] = []
        self._ahead: tuple[HoldSpan, ...] = ()

    @property
    def clear(self) -> bool:
        return not self._ahead

    def seen(self, now: float, holds: Iterable[Hold], *, half_open: bool) -> None:
        """What the gate says at *now*; a breaker that is half-open holds nothing while it has calls to give."""
        self._end(now)
        trying = (HoldSpan(now, math.inf, HoldKind.HALF_OPEN),) if half_open else ()
        self._ahead = (*trying, *(span for hold in holds for span in _spans(hold, now)))

    def closed(self, end: float) -> Sequence[HoldSpan]:
        """Every span, none of them beyond *end*; those that touch and say the same are one."""
        self._end(end)
        self._ahead = ()
        joined: list[HoldSpan] = []
        last: dict[HoldKind, int] = {}
        for span in sorted(self._past, key=lambda each: each.start):
            at = last.get(span.why)
            if at is not None and span.start <= joined[at].end:
                joined[at] = HoldSpan(joined[at].start, max(joined[at].end, span.end), span.why)
            else:
                last[span.why] = len(joined)
                joined.append(span)
        return tuple(joined)

    def _end(self, now: float) -> None:
        self._past += [HoldSpan(each.start, min(each.end, now), each.why) for each in self._ahead if each.start < now]


def _spans(hold: Hold, now: float) -> Iterable[HoldSpan]:
    why = _OF_REASON.get(hold.reason, HoldKind.OTHER)
    end = math.inf if hold.until is None else hold.until
    if why is not HoldKind.OPEN:
        yield HoldSpan(now, end, why)
    elif hold.ended_by is not EndedBy.CALL:
        yield HoldSpan(now, end, HoldKind.OPEN)
        yield HoldSpan(end, math.inf, HoldKind.HALF_OPEN)  # as soon as its time is over, it lets a few calls try
