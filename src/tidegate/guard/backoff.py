"""Delays between attempts: backoff after failures, and inline retries."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tidegate.durations import Duration, seconds
from tidegate.validation import number, whole

# -- backoff --------------------------------------------------------------------------------------------------------

_MAX_FAILURES = 2**53  # above this, a float skips integers


@dataclass(frozen=True, slots=True)
class Add:
    """Additive jitter instead of multiplicative: U[lo, hi) seconds, limited by the cap."""

    lo: Duration
    hi: Duration

    def __post_init__(self) -> None:
        lo, hi = seconds(self.lo, field="Add.lo"), seconds(self.hi, field="Add.hi")
        if hi < lo:
            raise ValueError(f"Add.hi must be at least Add.lo ({self.lo!r}), got {self.hi!r}; give them in order")
        object.__setattr__(self, "lo", lo)
        object.__setattr__(self, "hi", hi)

    def at(self, roll: float) -> float:
        lo, hi = seconds(self.lo), seconds(self.hi)
        return lo + (hi - lo) * roll


class Backoff:
    """min(base * factor^n, cap) * U[1-j, 1+j]. With `Add` jitter, min(base * factor^n + U[lo, hi), cap).

    n counts the failures before this one, so the first delay is *base*. Durations may be 30, "30s" or a timedelta.

        Backoff("30s", cap="30m").delay(failures=0)      # 22.5 to 37.5 seconds
    """

    __slots__ = ("base", "cap", "factor", "jitter", "steps")

    base: float
    cap: float
    factor: float
    jitter: float | Add
    steps: tuple[float, ...]

    def __init__(
        self, base: Duration = 30, cap: Duration = 1800, factor: float = 2, jitter: float | Add = 0.25
    ) -> None:
        self.base = seconds(base, field="Backoff.base")
        self.cap = seconds(cap, field="Backoff.cap")
        if self.cap < self.base:
            raise ValueError(f"Backoff.cap must be at least Backoff.base ({base!r}), got {cap!r}")
        self.factor = number(factor, field="Backoff.factor", minimum=1, maximum=1000)
        self.jitter = _jitter(jitter)
        self.steps = ()

    @classmethod
    def listed(cls, *waits: Duration, jitter: float | Add = 0.0) -> Backoff:
        """Creates a backoff from a list of delays. The last one repeats."""
        if not waits:
            raise ValueError("Backoff.listed needs at least one wait, got none; give Backoff.listed('5s', '15s')")
        steps = tuple(seconds(wait, field=f"Backoff.listed[{i}]") for i, wait in enumerate(waits))
        made = cls(steps[0], cap=max(steps), factor=1, jitter=jitter)
        made.steps = steps
        return made

    @classmethod
    def sync(cls) -> Backoff:
        """The profile of sync loops: 30 s doubling to 30 min, +-25 %."""
        return cls(30, cap=1800, factor=2, jitter=0.25)

    @classmethod
    def submission(cls) -> Backoff:
        """The profile of the submission queue: 1 min doubling, plus up to 1 min, never above 1 h."""
        return cls(60, cap=3600, factor=2, jitter=Add(0, 60))

    @classmethod
    def conversion(cls) -> Backoff:
        """The profile of conversion jobs: 5 s, 15 s, 45 s, +-20 %."""
        return cls.listed(5, 15, 45, jitter=0.2)

    def delay(self, failures: int, roll: float | None = None) -> float:
        """Returns the seconds to wait after one more failure.

        *failures* counts those before it. *roll* in [0, 1) picks the jitter. By default it is random.
        """
        if failures < 0:
            raise ValueError(f"failures: {failures!r} is below 0")
        at = random.random() if roll is None else roll
        jitter = self.jitter
        if isinstance(jitter, Add):
            return min(self.grown(failures) + jitter.at(at), self.cap)
        return self.grown(failures) * (1 + jitter * (2 * at - 1))

    def grown(self, failures: int) -> float:
        """The delay before jitter, in seconds."""
        if self.steps:
            return self.steps[min(failures, len(self.steps) - 1)]
        if not self.base:
            return 0.0
        try:
            return min(self.base * self.factor ** min(failures, _MAX_FAILURES), self.cap)
        except OverflowError:  # 2.0 ** 1100
            return self.cap

    def at_cap(self, failures: int) -> bool:
        """Whether the delay before jitter has grown to the cap. False for a constant delay."""
        return self.cap > self.base and self.grown(failures) >= self.cap

    @property
    def bound(self) -> float:
        """The longest possible delay, in seconds."""
        return self.cap if isinstance(self.jitter, Add) else self.cap * (1 + self.jitter)

    def _values(self) -> tuple[object, ...]:
        return (self.base, self.cap, self.factor, self.jitter, self.steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backoff) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        if self.steps:
            return f"Backoff.listed({', '.join(f'{s:g}' for s in self.steps)}, jitter={self.jitter!r})"
        return f"Backoff({self.base:g}, cap={self.cap:g}, factor={self.factor:g}, jitter={self.jitter!r})"


def _jitter(jitter: float | Add) -> float | Add:
    if isinstance(jitter, Add):
        return jitter
    return number(jitter, field="Backoff.jitter", minimum=0, maximum=1)


# -- inline retries -------------------------------------------------------------------------------------------------

_FACTOR = 2.0
_MAX_ATTEMPTS = 101


@dataclass(frozen=True, slots=True)
class Retry:
    """Up to *attempts* calls in total, with a delay of U[0, min(base * 2^n, cap)] before attempt n + 2.

        @api.guard(retry=Retry(attempts=3, base="100ms", cap="5s"))     # the same as retry=3

    A Retry-After of the service is a lower bound: a longer delay stays, a shorter one grows to it. If it is above
    *cap*, the call is not retried. After a 429 without Retry-After the lower bound is 1 s, doubled for each next one.
    """

    attempts: int = 3
    base: Duration = "100ms"
    cap: Duration = "5s"

    def __post_init__(self) -> None:
        whole(self.attempts, field="Retry.attempts", maximum=_MAX_ATTEMPTS)
        base = seconds(self.base, field="Retry.base")
        cap = seconds(self.cap, field="Retry.cap")
        if cap < base:
            raise ValueError(f"Retry.cap must be at least Retry.base ({self.base!r}), got {self.cap!r}")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "cap", cap)

    def pause(self, failed: int, roll: float, asked: float = 0.0) -> float | None:
        """Returns the seconds until the next attempt after *failed* attempts, or None without one.

        *roll* in [0, 1) picks the jitter. *asked* is the Retry-After of the service.
        """
        if failed >= self.attempts or asked > self.longest:
            return None
        longest: float = min(seconds(self.base) * _FACTOR ** min(failed - 1, 64), self.longest)
        return max(longest * roll, asked)

    @property
    def longest(self) -> float:
        """The *cap* in seconds."""
        return seconds(self.cap)


ONCE = Retry(attempts=1)


def retry_of(given: object) -> Retry:
    """Converts the *retry* option: a Retry, the total number of attempts, or None or False for one."""
    if given is None or given is False:
        return ONCE
    if isinstance(given, Retry):
        return given
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(
            f"retry must be a Retry or a number of attempts in all, got {given!r:.60}; did you mean retry=3?"
        )
    if not 1 <= given <= _MAX_ATTEMPTS:
        raise ValueError(
            f"retry must be the number of attempts in all, from 1 to {_MAX_ATTEMPTS}, got {given}; 1 means no retry"
        )
    return Retry(attempts=given)
