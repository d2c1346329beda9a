"""Counts of a breaker: lock-free windows and totals."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import NamedTuple, Protocol
from weakref import ref

# -- windows --------------------------------------------------------------------------------------------------------

_UNLIMITED = sys.maxsize


class AtomicCounter(Protocol):
    """Counts down by one at each `next`, and reports how many steps are left."""

    def __next__(self) -> object: ...
    def __length_hint__(self) -> int: ...


class LockedCounter:
    """An exact counter without the GIL, where two threads may take the same step of an iterator."""

    __slots__ = ("_left", "_lock")

    def __init__(self) -> None:
        self._left = _UNLIMITED
        self._lock = threading.Lock()

    def __next__(self) -> None:
        with self._lock:
            self._left -= 1

    def __length_hint__(self) -> int:
        return self._left


def _repeated() -> AtomicCounter:
    return repeat(None, _UNLIMITED)


# Under the GIL, `next()` on a C iterator is atomic and much cheaper than a lock. `repeat` reports the remaining steps
# without consuming one.
atomic_counter = _repeated if getattr(sys, "_is_gil_enabled", lambda: True)() else LockedCounter


class Counts(NamedTuple):
    """The counts of a breaker since the last reset."""

    requests: int
    successes: int
    failures: int
    consecutive_successes: int
    consecutive_failures: int

    @property
    def failure_ratio(self) -> float:
        return self.failures / self.requests if self.requests else 0.0


NO_COUNTS = Counts(0, 0, 0, 0, 0)


class CountWindow:
    """One interval (or bucket of the sliding window) of the closed state.

    `next(admitted)` and `ok()` are safe from any thread without a lock. The breaker's lock protects the other fields. A
    call keeps the window that admitted it, so a late result does not change the current counts.
    """

    __slots__ = (
        "__weakref__",
        "_succeeded",
        "admitted",
        "alone",
        "ends",
        "excluded",
        "failures",
        "carried_failures",
        "left",
        "mark",
        "ok",
        "run",
        "seen",
    )

    def __init__(self, ends: float, handed: int = 0, *, alone: bool = True) -> None:
        self.ends = ends  # on the breaker's clock; a call at or after it takes the slow path
        self.admitted = atomic_counter()
        self._succeeded = atomic_counter()
        self.ok = self._succeeded.__next__
        self.left = self._succeeded.__length_hint__
        self.failures = 0
        self.excluded = 0
        self.run = 0  # consecutive failures in this window
        self.mark = _UNLIMITED  # steps left at the last failure: a difference means that a success ended the run
        self.carried_failures = handed  # consecutive failures from other windows
        self.seen = _UNLIMITED  # steps left when `carried_failures` was set: a difference means that it is outdated
        self.alone = alone  # current, and no earlier window has calls in flight: failures count only here

    @property
    def requests(self) -> int:
        return _UNLIMITED - self.admitted.__length_hint__() - self.excluded

    @property
    def successes(self) -> int:
        return _UNLIMITED - self.left()

    @staticmethod
    def successes_at(left: int) -> int:
        return _UNLIMITED - left

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
    def consecutive_failures(self) -> int:
        """Consecutive failures up to now, including those of earlier windows."""
        left = self.left()
        return (self.run if left == self.mark else 0) + (self.carried_failures if left == self.seen else 0)

    def carry_over(self, run: int) -> None:
        """Sets the consecutive failures to *run* without changing the counts of this window."""
        self.seen = self.left()
        self.carried_failures = run - (self.run if self.seen == self.mark else 0)

    @property
    def counts(self) -> Counts:
        left = self.left()
        row = self.run if left == self.mark else 0
        return Counts(self.requests, _UNLIMITED - left, self.failures, self.mark - left, row)


# Replaces the window while the breaker is open or half-open: every call takes the slow path.
NO_WINDOW = CountWindow(-math.inf)


# -- totals ---------------------------------------------------------------------------------------------------------

# A stored exception keeps its frames, and they keep the window. Above this number, the oldest windows are dropped.
_MAX_RETIRED = 256


class ResultTotals:
    """Calls by result since construction. The owner holds the breaker's lock, except to count rejections."""

    __slots__ = ("_retired", "failures", "rejected", "successes")

    def __init__(self) -> None:
        self.successes = self.failures = 0  # of half-open calls and closed windows
        self.rejected = CountWindow(math.inf)
        self._retired: list[tuple[ref[CountWindow], Callable[[], int], int]] = []

    def fold_window(self, window: CountWindow) -> None:
        """Adds a closed window. Its late successes are still counted from it. Late failures go to `failures`."""
        window.alone = False
        self.failures += window.failures
        left = window.left()
        self.successes += window.successes_at(left)
        self._retired.append((ref(window), window.left, left))
        self._fold()

    def results(self, live: Iterable[CountWindow]) -> dict[str, int]:
        """Returns success, failure and rejected. *live* are the windows that are still open."""
        self._fold()
        good = bad = 0
        for epoch in live:
            good += epoch.successes
            bad += epoch.failures
        return {"success": self.successes + good, "failure": self.failures + bad, "rejected": self.rejected.requests}

    def _fold(self) -> None:
        kept = []
        for epoch, left_now, left in self._retired:
            # The order matters: a call that still holds the window may succeed in between.
            gone, now = epoch() is None, left_now()
            self.successes += left - now
            if not gone:
                kept.append((epoch, left_now, now))
        self._retired = kept[-_MAX_RETIRED:]
