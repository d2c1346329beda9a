"""How many jobs may be under way at a target that has come back, and for which nobody has named a limit.

It climbs while more under way brings more answers. A step in which work was held back, and which brought no more than
the one before, has shown what the target can do: there it stays, and tries now and then whether more has become
possible. Pure: what was seen, and when, in; what is allowed out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

STEP_SECONDS = 6.0  # seconds in which it doubles
TOP = 1024  # beyond it there is no limit any more
_STEADY_SECONDS = 48.0  # seconds that it stays, before it tries more
_PROBING_SECONDS = 12.0
_GROWTH = 1.25  # times what was allowed, on trial; and the least that a doubling must bring
_MIN_ANSWERS = 20  # answers in a step; from fewer nothing can be told


class LimitPhase(StrEnum):
    SLOW_START = "doubling"
    STEADY = "resting"
    PROBING = "trying"


_PHASE_SECONDS = {
    LimitPhase.SLOW_START: STEP_SECONDS,
    LimitPhase.STEADY: _STEADY_SECONDS,
    LimitPhase.PROBING: _PROBING_SECONDS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveLimit:
    """One step of it."""

    phase: LimitPhase = LimitPhase.SLOW_START
    most: int = 1  # under way when the step began; on trial, what is gone back to
    since: float
    good: int = 0  # answers in this step
    bound: bool = False  # more would have gone
    rate: float = 0.0  # answers a second in the step before; 0: not known

    def allowed(self, now: float) -> int:
        match self.phase:
            case LimitPhase.SLOW_START:
                # Smoothly: twice as many in one moment could be the very burst that it must be spared.
                age = min(max(0.0, now - self.since), STEP_SECONDS)
                return int(self.most * 2 ** (age / STEP_SECONDS))
            case LimitPhase.STEADY:
                return self.most
            case LimitPhase.PROBING:
                return math.ceil(self.most * _GROWTH)

    def dump(self) -> list[object]:
        return [str(self.phase), self.most, self.since, self.good, self.bound, self.rate]

    @classmethod
    def load(cls, kept: list[object]) -> AdaptiveLimit:
        phase, most, since, good, bound, rate = kept
        return cls(
            phase=LimitPhase(str(phase)), most=int(str(most)), since=float(str(since)), good=int(str(good)),
            bound=bool(bound), rate=float(str(rate)),
        )  # fmt: skip


def advance(climb: AdaptiveLimit, now: float) -> AdaptiveLimit | None:
    """The step that follows when this one is over; None when there is nothing to limit any more."""
    lasted = now - climb.since
    if lasted < 0:
        return replace(climb, since=now)  # the clock was set back, and the step begins again
    if lasted < _PHASE_SECONDS[climb.phase]:
        return climb
    if not climb.bound:
        return _doubled(climb, now, 0.0, steps=int(lasted // STEP_SECONDS))  # an hour without work is many steps
    rate = climb.good / lasted
    match climb.phase:
        case LimitPhase.SLOW_START:
            if climb.good < _MIN_ANSWERS or not climb.rate or rate >= _GROWTH * climb.rate:
                return _doubled(climb, now, rate)
            return AdaptiveLimit(phase=LimitPhase.STEADY, most=climb.most, since=now, rate=rate)
        case LimitPhase.STEADY:
            if rate < climb.rate / 2:
                # What brings half of what it brought is too much by now; what half as many bring is not known yet.
                return AdaptiveLimit(phase=LimitPhase.PROBING, most=max(1, climb.most // 2), since=now)
            return AdaptiveLimit(phase=LimitPhase.PROBING, most=climb.most, since=now, rate=rate)
        case LimitPhase.PROBING:
            expected = climb.rate * lasted
            if climb.good >= 1.1 * expected + 1.5 * math.sqrt(expected):
                return AdaptiveLimit(phase=LimitPhase.PROBING, most=climb.allowed(now), since=now, rate=rate)
            return AdaptiveLimit(phase=LimitPhase.STEADY, most=climb.most, since=now, rate=climb.rate)


def record_success(climb: AdaptiveLimit, n: int) -> AdaptiveLimit:
    return replace(climb, good=climb.good + n) if n else climb


def mark_limited(climb: AdaptiveLimit) -> AdaptiveLimit:
    """More jobs were there than it allowed."""
    return climb if climb.bound else replace(climb, bound=True)


def _doubled(climb: AdaptiveLimit, now: float, rate: float, steps: int = 1) -> AdaptiveLimit | None:
    most = climb.most * 2 ** min(steps, 10)
    return None if most >= TOP else AdaptiveLimit(most=most, since=now, rate=rate)
