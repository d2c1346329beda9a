"""What a course shows: how soon it was well again, how much was asked of the service, how long the backlog took."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from tests.overload.course import Course
from tests.overload.gateway import PATIENCE, QUICK

WELL = 0.95  # of the goodput before the dip


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds, and shares of the capacity."""

    trips: int  # in all
    closed: float  # when the breaker first closed again; the end of the dip, if it never opened
    well_after: float  # from then until the goodput was as before, and stayed so
    most_offered: float  # in any second since the service is back
    failed: int  # calls since then, but for those that the dip still broke
    took: float | None  # from the breaker's closing until the backlog was gone, if it ever was
    ideal: float  # the same, had the service never been idle and never been overloaded

    def __str__(self) -> str:
        drained = "never drained" if self.took is None else f"drained in {self.took:.0f} s (ideal {self.ideal:.0f} s)"
        return (
            f"{self.trips} trips, well {self.well_after:.0f} s after it closed, at most {self.most_offered:.2f} of the "
            f"capacity offered, {self.failed} calls failed, {drained}"
        )


def measured(course: Course) -> Measured:
    gateway = course.gateway
    closed = next((at for at, state in course.moves if state == "closed" and at >= course.back), course.back)
    end = course.clock.monotonic() if course.drained is None else course.drained
    waiting = course.depth[min(course.depth, key=lambda at: abs(at - closed))]
    return Measured(
        trips=sum(state == "open" for _, state in course.moves),
        closed=closed,
        well_after=_well(gateway.good, closed, end, course.load * course.capacity) - closed,
        most_offered=_most(gateway.calls, course.back) / course.capacity,
        failed=len(gateway.bad) - bisect.bisect_left(gateway.bad, course.back + PATIENCE + QUICK),
        took=None if course.drained is None else end - closed,
        ideal=waiting / (course.capacity * (1 - course.load)),
    )


def between(moments: Sequence[float], a: float, b: float) -> int:
    return bisect.bisect_left(moments, b) - bisect.bisect_left(moments, a)


def _well(good: Sequence[float], closed: float, end: float, before: float) -> float:
    """The end of the last ten seconds that brought less than they should."""
    bad = [at for at in range(int(closed), int(end) - 10) if between(good, at, at + 10) < WELL * before * 10]
    return max([closed, *(at + 10.0 for at in bad)])


def _most(calls: Sequence[float], since: float) -> int:
    """The most calls that began within one second."""
    first = bisect.bisect_left(calls, since)
    return max((n - bisect.bisect_right(calls, at - 1.0) + 1 for n, at in enumerate(calls) if n >= first), default=0)


def table(course: Course, every: int = 10) -> list[tuple[int, float, float, int]]:
    """Second, and from it on: calls a second, good answers a second, jobs that wait."""
    gateway, end = course.gateway, int(course.clock.monotonic())
    return [
        (at, between(gateway.calls, at, at + every) / every, between(gateway.good, at, at + every) / every,
         course.depth.get(at, 0))
        for at in range(0, end, every)
    ]  # fmt: skip
