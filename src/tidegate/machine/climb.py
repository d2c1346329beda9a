"""How many jobs may be under way at a target that has come back, and for which nobody has named a limit.

It climbs while more under way brings more answers. A step in which work was held back, and which brought no more than
the one before, has shown what the target can do: there it stays, and tries now and then whether more has become
possible. Pure: what was seen, and when, in; what is allowed out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

STEP = 6.0  # seconds in which it doubles
TOP = 1024  # beyond it there is no limit any more
_REST = 48.0  # seconds that it stays, before it tries more
_TRIAL = 12.0
_MORE = 1.25  # times what was allowed, on trial; and the least that a doubling must bring
_ENOUGH = 20  # answers in a step; from fewer nothing can be told


class Phase(StrEnum):
    DOUBLING = "doubling"
    RESTING = "resting"
    TRYING = "trying"


_LASTS = {Phase.DOUBLING: STEP, Phase.RESTING: _REST, Phase.TRYING: _TRIAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """One step of it."""

    phase: Phase = Phase.DOUBLING
    most: int = 1  # under way when the step began; on trial, what is gone back to
    since: float
    good: int = 0  # answers in this step
    bound: bool = False  # more would have gone
    rate: float = 0.0  # answers a second in the step before; 0: not known

    def allowed(self, now: float) -> int:
        match self.phase:
            case Phase.DOUBLING:
                # Smoothly: twice as many in one moment could be the very burst that it must be spared.
                age = min(max(0.0, now - self.since), STEP)
                return int(self.most * 2 ** (age / STEP))
            case Phase.RESTING:
                return self.most
            case Phase.TRYING:
                return math.ceil(self.most * _MORE)

    def dumped(self) -> list[object]:
        return [str(self.phase), self.most, self.since, self.good, self.bound, self.rate]

    @classmethod
    def loaded(cls, kept: list[object]) -> Climb:
        phase, most, since, good, bound, rate = kept
        return cls(
            phase=Phase(str(phase)), most=int(str(most)), since=float(str(since)), good=int(str(good)),
            bound=bool(bound), rate=float(str(rate)),
        )  # fmt: skip


def advanced(climb: Climb, now: float) -> Climb | None:
    """The step that follows when this one is over; None when there is nothing to limit any more."""
    lasted = now - climb.since
    if lasted < 0:
        return replace(climb, since=now)  # the clock was set back, and the step begins again
    if lasted < _LASTS[climb.phase]:
        return climb
    if not climb.bound:
        return _doubled(climb, now, 0.0, steps=int(lasted // STEP))  # an hour without work is many steps
    rate = climb.good / lasted
    match climb.phase:
        case Phase.DOUBLING:
            if climb.good < _ENOUGH or not climb.rate or rate >= _MORE * climb.rate:
                return _doubled(climb, now, rate)
            return Climb(phase=Phase.RESTING, most=climb.most, since=now, rate=rate)
        case Phase.RESTING:
            if rate < climb.rate / 2:
                # What brings half of what it brought is too much by now; what half as many bring is not known yet.
                return Climb(phase=Phase.TRYING, most=max(1, climb.most // 2), since=now)
            return Climb(phase=Phase.TRYING, most=climb.most, since=now, rate=rate)
        case Phase.TRYING:
            expected = climb.rate * lasted
            if climb.good >= 1.1 * expected + 1.5 * math.sqrt(expected):
                return Climb(phase=Phase.TRYING, most=climb.allowed(now), since=now, rate=rate)
            return Climb(phase=Phase.RESTING, most=climb.most, since=now, rate=climb.rate)


def answered(climb: Climb, n: int) -> Climb:
    return replace(climb, good=climb.good + n) if n else climb


def held_back(climb: Climb) -> Climb:
    """More jobs were there than it allowed."""
    return climb if climb.bound else replace(climb, bound=True)


def _doubled(climb: Climb, now: float, rate: float, steps: int = 1) -> Climb | None:
    most = climb.most * 2 ** min(steps, 10)
    return None if most >= TOP else Climb(most=most, since=now, rate=rate)
