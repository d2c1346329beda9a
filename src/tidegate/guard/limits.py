"""Rate, concurrency and slow start of a target."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from enum import StrEnum

from tidegate.durations import Duration, seconds
from tidegate.guard.hold import EndedBy, Hold, HoldReason
from tidegate.validation import number, whole

# How many calls a target may get in a time.

MIN_RATE, MAX_RATE = 1e-6, 1e9  # calls
_SET_BACK = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Rate:
    """*count* calls per *per*, of which *burst* may come at once.

    Rate(1, "1.1s")        # MusicBrainz
    Rate(120, "1m", burst=5)
    """

    count: float
    per: Duration = "1s"
    burst: int = 1

    def __post_init__(self) -> None:
        number(self.count, field="Rate.count", minimum=MIN_RATE, maximum=MAX_RATE)
        whole(self.burst, field="Rate.burst")
        object.__setattr__(self, "per", seconds(self.per, field="Rate.per", minimum=0.001))

    @property
    def spacing(self) -> float:
        """Seconds from one call to the next when they come evenly."""
        return seconds(self.per) / self.count

    def wait(self, paid_until: float, now: float) -> float:
        """Seconds until the next call may go; *paid_until* is what the calls so far have used up."""
        left = paid_until - (self.burst - 1) * self.spacing - now
        # Sums of spacings are not exact: a call that comes at its very time must not be late by a rounding.
        return left if left > 1e-6 * self.spacing else 0.0

    def used(self, kept: float | None, now: float) -> float:
        """The *paid_until* that a row has kept; None: no call has used anything yet.

        Nobody pays further ahead than a burst. What goes far beyond is from before the clock was set back, and would
        hold everything until it is there again; a little beyond is waited for, since a call too early is the worse one.
        """
        return -math.inf if kept is None or kept > now + self.burst * self.spacing + _SET_BACK else kept

    def pay(self, paid_until: float, now: float) -> float:
        """The new *paid_until* after one more call."""
        return max(paid_until, now) + self.spacing


# Opening again is gentle: after a breaker has closed, what may be under way grows from one to its limit.

UNLIMITED = 1_000_000_000
# After a breaker has closed again, concurrency climbs from 1 to its limit over this time.
RAMP_SECONDS = 60.0


def ramp_limit(limit: int, closed_at: float | None, now: float) -> int:
    """How many may be under way."""
    age = math.inf if closed_at is None else max(0.0, now - closed_at)
    return limit if age >= RAMP_SECONDS else max(1, math.ceil(limit * age / RAMP_SECONDS))


def ramps_at(closed_at: float | None, now: float) -> bool:
    return closed_at is not None and now - closed_at < RAMP_SECONDS


# Rate and concurrency of one target, in process.


class CallLimits:
    """Counts what is under way and what the rate has paid for."""

    __slots__ = ("_active", "_closed_at", "_lock", "_paid_until", "concurrency", "rate", "wait")

    def __init__(self, rate: Rate | None, concurrency: int | None, wait: float) -> None:
        self.rate = rate
        self.concurrency = concurrency
        self.wait = wait  # how long a call may wait for its turn
        self._lock = threading.Lock()
        self._active = 0
        self._paid_until = -math.inf
        self._closed_at: float | None = None

    def take(self, now: float, limit: float = math.inf) -> Hold | float:
        """Seconds to wait before the call, at most *most*; or why it may not go."""
        with self._lock:
            held = self._holds(now, limit)
            if held:
                return held[0]
            wait = 0.0
            if self.rate is not None:
                wait = self.rate.wait(self._paid_until, now)
                self._paid_until = self.rate.pay(self._paid_until, now)
            self._active += 1
            return wait

    def holds(self, now: float) -> list[Hold]:
        """Why a call may not go now, in the order of the gate."""
        with self._lock:
            return self._holds(now, math.inf)

    def _holds(self, now: float, limit: float) -> list[Hold]:
        found = []
        wait = 0.0 if self.rate is None else self.rate.wait(self._paid_until, now)
        if wait > min(self.wait, limit):
            found.append(Hold(reason=HoldReason.RATE, since=now, until=now + wait))
        if self.concurrency is not None and self._active >= self.allowed(now):
            found.append(Hold(reason=HoldReason.CONCURRENCY, since=now, until=None, ended_by=EndedBy.CALL))
        return found

    def release(self) -> None:
        with self._lock:
            self._active -= 1

    def closed(self, now: float) -> None:
        """The breaker has just closed: a backlog must not kill the service that came back."""
        self._closed_at = now

    def allowed(self, now: float) -> int:
        """How many calls may be under way at this moment."""
        return UNLIMITED if self.concurrency is None else ramp_limit(self.concurrency, self._closed_at, now)


# How many jobs may be under way at a target that has come back, and for which nobody has named a limit.
#
# It climbs while more under way brings more answers. A step in which work was held back, and which brought no more
# than the one before, has shown what the target can do: there it stays, and tries now and then whether more has become
# possible. Pure: what was seen, and when, in; what is allowed out.

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
            phase=LimitPhase(str(phase)),
            most=int(str(most)),
            since=float(str(since)),
            good=int(str(good)),
            bound=bool(bound),
            rate=float(str(rate)),
        )


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
