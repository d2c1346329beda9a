"""Rate, concurrency and slow start of a target."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from enum import StrEnum

from tidegate.durations import Duration, seconds
from tidegate.guard.hold import EndedBy, Hold, HoldReason
from tidegate.validation import number, whole

# -- rate -----------------------------------------------------------------------------------------------------------

MIN_RATE, MAX_RATE = 1e-6, 1e9  # calls
_SET_BACK = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Rate:
    """*count* calls per *per*, with bursts of up to *burst* calls.

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
        """Seconds between calls at an even rate."""
        return seconds(self.per) / self.count

    def wait(self, paid_until: float, now: float) -> float:
        """Returns the seconds until the next call may go.

        *paid_until* is the time that the calls so far have used up.
        """
        left = paid_until - (self.burst - 1) * self.spacing - now
        # Sums of spacings are inexact: a call that is exactly on time must not wait because of rounding.
        return left if left > 1e-6 * self.spacing else 0.0

    def used(self, stored: float | None, now: float) -> float:
        """Returns the stored *paid_until*, or -inf without one or with one that is too far ahead.

        Calls pay ahead by up to one burst. A value far beyond that is from before the clock was set back, and would
        hold all calls for too long. A value slightly beyond it is obeyed, because a call that is too early is worse.
        """
        return -math.inf if stored is None or stored > now + self.burst * self.spacing + _SET_BACK else stored

    def pay(self, paid_until: float, now: float) -> float:
        """Returns the new *paid_until* after one more call."""
        return max(paid_until, now) + self.spacing


# -- ramp after the breaker closes ----------------------------------------------------------------------------------

UNLIMITED = 1_000_000_000
# Seconds in which the concurrency grows from 1 to its limit after a breaker closed.
RAMP_SECONDS = 60.0


def ramp_limit(limit: int, closed_at: float | None, now: float) -> int:
    """Returns how many calls may be in progress."""
    age = math.inf if closed_at is None else max(0.0, now - closed_at)
    return limit if age >= RAMP_SECONDS else max(1, math.ceil(limit * age / RAMP_SECONDS))


def ramps_at(closed_at: float | None, now: float) -> bool:
    return closed_at is not None and now - closed_at < RAMP_SECONDS


# -- limits of one target in this process ---------------------------------------------------------------------------


class CallLimits:
    """Counts the calls in progress, and what the rate has paid for."""

    __slots__ = ("_active", "_closed_at", "_lock", "_paid_until", "concurrency", "rate", "wait")

    def __init__(self, rate: Rate | None, concurrency: int | None, wait: float) -> None:
        self.rate = rate
        self.concurrency = concurrency
        self.wait = wait  # seconds that a call may wait for the rate
        self._lock = threading.Lock()
        self._active = 0
        self._paid_until = -math.inf
        self._closed_at: float | None = None

    def take(self, now: float, limit: float = math.inf) -> Hold | float:
        """Returns the seconds to wait before the call, up to *limit*, or the reason why it may not go."""
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
        """Returns the reasons why a call may not go now, in gate order."""
        with self._lock:
            return self._holds(now, math.inf)

    def _holds(self, now: float, limit: float) -> list[Hold]:
        holds = []
        wait = 0.0 if self.rate is None else self.rate.wait(self._paid_until, now)
        if wait > min(self.wait, limit):
            holds.append(Hold(reason=HoldReason.RATE, since=now, until=now + wait))
        if self.concurrency is not None and self._active >= self.allowed(now):
            holds.append(Hold(reason=HoldReason.CONCURRENCY, since=now, until=None, ended_by=EndedBy.CALL))
        return holds

    def release(self) -> None:
        with self._lock:
            self._active -= 1

    def closed(self, now: float) -> None:
        """Starts the ramp: a backlog must not overload a service that just recovered."""
        self._closed_at = now

    def allowed(self, now: float) -> int:
        """Returns how many calls may be in progress now."""
        return UNLIMITED if self.concurrency is None else ramp_limit(self.concurrency, self._closed_at, now)


# -- adaptive limit of jobs -----------------------------------------------------------------------------------------

STEP_SECONDS = 6.0  # seconds in which the limit doubles
TOP = 1024  # above it there is no limit
_STEADY_SECONDS = 48.0  # seconds before it tries a higher limit
_PROBING_SECONDS = 12.0
_GROWTH = 1.25  # factor of a trial; also the minimum gain that a doubling must bring
_MIN_ANSWERS = 20  # responses in a step; fewer are not significant


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
    """How many jobs may be in progress at a target that recovered and has no configured limit.

    The limit grows while more jobs in progress bring more responses. If a step was limited and brought no more than the
    step before, the target is at its capacity. The limit stays there and probes a higher value from time to time. The
    functions are pure.
    """

    phase: LimitPhase = LimitPhase.SLOW_START
    most: int = 1  # jobs in progress when the step began; while probing, the limit to return to
    since: float
    good: int = 0  # responses in this step
    bound: bool = False  # more jobs were ready
    rate: float = 0.0  # responses per second in the last step; 0 if unknown

    def allowed(self, now: float) -> int:
        match self.phase:
            case LimitPhase.SLOW_START:
                # The limit grows smoothly: doubling it at one moment could be a burst that the target cannot handle.
                age = min(max(0.0, now - self.since), STEP_SECONDS)
                return int(self.most * 2 ** (age / STEP_SECONDS))
            case LimitPhase.STEADY:
                return self.most
            case LimitPhase.PROBING:
                return math.ceil(self.most * _GROWTH)

    def dump(self) -> list[object]:
        return [str(self.phase), self.most, self.since, self.good, self.bound, self.rate]

    @classmethod
    def load(cls, fields: list[object]) -> AdaptiveLimit:
        phase, most, since, good, bound, rate = fields
        return cls(
            phase=LimitPhase(str(phase)),
            most=int(str(most)),
            since=float(str(since)),
            good=int(str(good)),
            bound=bool(bound),
            rate=float(str(rate)),
        )


def advance(limit: AdaptiveLimit, now: float) -> AdaptiveLimit | None:
    """Returns the current or next step, or None if no limit is needed any more."""
    lasted = now - limit.since
    if lasted < 0:
        return replace(limit, since=now)  # the clock was set back: the step starts again
    if lasted < _PHASE_SECONDS[limit.phase]:
        return limit
    if not limit.bound:
        return _doubled(limit, now, 0.0, steps=int(lasted // STEP_SECONDS))  # an hour without work is many steps
    rate = limit.good / lasted
    match limit.phase:
        case LimitPhase.SLOW_START:
            if limit.good < _MIN_ANSWERS or not limit.rate or rate >= _GROWTH * limit.rate:
                return _doubled(limit, now, rate)
            return AdaptiveLimit(phase=LimitPhase.STEADY, most=limit.most, since=now, rate=rate)
        case LimitPhase.STEADY:
            if rate < limit.rate / 2:
                # At half of its former rate the target has too many jobs. The rate at half the limit is not known yet.
                return AdaptiveLimit(phase=LimitPhase.PROBING, most=max(1, limit.most // 2), since=now)
            return AdaptiveLimit(phase=LimitPhase.PROBING, most=limit.most, since=now, rate=rate)
        case LimitPhase.PROBING:
            expected = limit.rate * lasted
            if limit.good >= 1.1 * expected + 1.5 * math.sqrt(expected):
                return AdaptiveLimit(phase=LimitPhase.PROBING, most=limit.allowed(now), since=now, rate=rate)
            return AdaptiveLimit(phase=LimitPhase.STEADY, most=limit.most, since=now, rate=limit.rate)


def record_success(limit: AdaptiveLimit, n: int) -> AdaptiveLimit:
    return replace(limit, good=limit.good + n) if n else limit


def mark_limited(limit: AdaptiveLimit) -> AdaptiveLimit:
    """Records that more jobs were ready than the limit allowed."""
    return limit if limit.bound else replace(limit, bound=True)


def _doubled(limit: AdaptiveLimit, now: float, rate: float, steps: int = 1) -> AdaptiveLimit | None:
    most = limit.most * 2 ** min(steps, 10)
    return None if most >= TOP else AdaptiveLimit(most=most, since=now, rate=rate)
