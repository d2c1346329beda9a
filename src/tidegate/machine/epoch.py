"""The counts of one stretch of a breaker's life, kept without a lock while all is well."""

from __future__ import annotations

import math
import sys
import threading
from itertools import repeat
from typing import NamedTuple, Protocol

_PLENTY = sys.maxsize


class Countdown(Protocol):
    """Loses one step at each `next`, and tells how many are left."""

    def __next__(self) -> object: ...
    def __length_hint__(self) -> int: ...


class LockedCountdown:
    """Exact without the GIL, where two threads may take the same step of an iterator."""

    __slots__ = ("_left", "_lock")

    def __init__(self) -> None:
        self._left = _PLENTY
        self._lock = threading.Lock()

    def __next__(self) -> None:
        with self._lock:
            self._left -= 1

    def __length_hint__(self) -> int:
        return self._left


def _repeated() -> Countdown:
    return repeat(None, _PLENTY)


# Under the GIL `next()` on a C iterator is one indivisible step, cheaper than a lock by far, and `repeat` tells how
# many are left without being consumed.
countdown = _repeated if getattr(sys, "_is_gil_enabled", lambda: True)() else LockedCountdown


class Counts(NamedTuple):
    """What a breaker has seen since its counts were last cleared."""

    requests: int
    successes: int
    failures: int
    consecutive_successes: int
    consecutive_failures: int

    @property
    def failure_ratio(self) -> float:
        return self.failures / self.requests if self.requests else 0.0


NO_COUNTS = Counts(0, 0, 0, 0, 0)


class Epoch:
    """One interval (or bucket of the sliding window) of the closed state.

    `next(admitted)` and `ok()` are safe from any thread without a lock; the plain fields belong to the breaker's lock.
    A call keeps the epoch it was admitted in, so a late result lands there and changes no count that is current.
    """

    __slots__ = (
        "__weakref__", "_succeeded", "admitted", "alone", "ends", "excluded", "failures", "handed", "left", "mark",
        "ok", "run", "seen",
    )  # fmt: skip

    def __init__(self, ends: float, handed: int = 0, *, alone: bool = True) -> None:
        self.ends = ends  # on the breaker's clock; a call at or after it takes the slow path
        self.admitted = countdown()
        self._succeeded = countdown()
        self.ok = self._succeeded.__next__
        self.left = self._succeeded.__length_hint__
        self.failures = 0
        self.excluded = 0
        self.run = 0  # failures in a row here
        self.mark = _PLENTY  # what was left at the last failure: a difference means that a success ended the run
        self.handed = handed  # failures in a row that other epochs saw
        self.seen = _PLENTY  # what was left when `handed` was true: a difference means that it no longer is
        self.alone = alone  # current, and no earlier epoch has calls out: a failure is counted here and nowhere else

    @property
    def requests(self) -> int:
        return _PLENTY - self.admitted.__length_hint__() - self.excluded

    @property
    def successes(self) -> int:
        return _PLENTY - self.left()

    @staticmethod
    def successes_at(left: int) -> int:
        return _PLENTY - left

    @property
    def outstanding(self) -> int:
        return self.requests - self.successes - self.failures

    def fail(self) -> None:
        left = self.left()
        if left != self.mark:
            self.mark = left
            self.run = 0
        self.run += 1
        self.failures += 1

    @property
    def in_a_row(self) -> int:
        """Failures in a row up to now, those of earlier epochs included."""
        left = self.left()
        return (self.run if left == self.mark else 0) + (self.handed if left == self.seen else 0)

    def hand(self, run: int) -> None:
        """Makes the failures in a row *run* in all, and leaves the counts of this epoch as they are."""
        self.seen = self.left()
        self.handed = run - (self.run if self.seen == self.mark else 0)

    @property
    def counts(self) -> Counts:
        left = self.left()
        row = self.run if left == self.mark else 0
        return Counts(self.requests, _PLENTY - left, self.failures, self.mark - left, row)


# What stands in for the epoch while the breaker is open or half-open: every call takes the slow path.
SHUT = Epoch(-math.inf)
