"""Counts of a breaker: lock-free windows and totals."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import NamedTuple, Protocol
from weakref import ref

# The counts of one stretch of a breaker's life, kept without a lock while all is well.

_UNLIMITED = sys.maxsize


class AtomicCounter(Protocol):
    """Loses one step at each `next`, and tells how many are left."""

    def __next__(self) -> object: ...
    def __length_hint__(self) -> int: ...


class LockedCounter:
    """Exact without the GIL, where two threads may take the same step of an iterator."""

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


# Under the GIL `next()` on a C iterator is one indivisible step, cheaper than a lock by far, and `repeat` tells how
# many are left without being consumed.
atomic_counter = _repeated if getattr(sys, "_is_gil_enabled", lambda: True)() else LockedCounter


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


class CountWindow:
    """One interval (or bucket of the sliding window) of the closed state.

    `next(admitted)` and `ok()` are safe from any thread without a lock; the plain fields belong to the breaker's lock.
    A call keeps the epoch it was admitted in, so a late result lands there and changes no count that is current.
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
        self.run = 0  # failures in a row here
        self.mark = _UNLIMITED  # what was left at the last failure: a difference means that a success ended the run
        self.carried_failures = handed  # failures in a row that other epochs saw
        self.seen = _UNLIMITED  # what was left when `handed` was true: a difference means that it no longer is
        self.alone = alone  # current, and no earlier epoch has calls out: a failure is counted here and nowhere else

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
        """Failures in a row up to now, those of earlier epochs included."""
        left = self.left()
        return (self.run if left == self.mark else 0) + (self.carried_failures if left == self.seen else 0)

    def carry_over(self, run: int) -> None:
        """Makes the failures in a row *run* in all, and leaves the counts of this epoch as they are."""
        self.seen = self.left()
        self.carried_failures = run - (self.run if self.seen == self.mark else 0)

    @property
    def counts(self) -> Counts:
        left = self.left()
        row = self.run if left == self.mark else 0
        return Counts(self.requests, _UNLIMITED - left, self.failures, self.mark - left, row)


# What stands in for the epoch while the breaker is open or half-open: every call takes the slow path.
NO_WINDOW = CountWindow(-math.inf)


# How many calls a breaker has seen in all, by result. These numbers only grow.

# Whoever keeps exceptions keeps their frames, and with them the epochs: the oldest are given up.
_MAX_RETIRED = 256


class ResultTotals:
    """Kept beside the counts of the interval; whoever owns it holds the breaker's lock, but to reject."""

    __slots__ = ("_retired", "failures", "rejected", "successes")

    def __init__(self) -> None:
        self.successes = self.failures = 0  # of half-open calls, and of epochs that are over
        self.rejected = CountWindow(math.inf)
        self._retired: list[tuple[ref[CountWindow], Callable[[], int], int]] = []

    def fold_window(self, window: CountWindow) -> None:
        """The epoch is over. Late successes are still found in it; late failures are for `failures`."""
        window.alone = False
        self.failures += window.failures
        left = window.left()
        self.successes += window.successes_at(left)
        self._retired.append((ref(window), window.left, left))
        self._fold()

    def results(self, live: Iterable[CountWindow]) -> dict[str, int]:
        """Success, failure and rejected; *live* are the epochs that are not over."""
        self._fold()
        good = bad = 0
        for epoch in live:
            good += epoch.successes
            bad += epoch.failures
        return {"success": self.successes + good, "failure": self.failures + bad, "rejected": self.rejected.requests}

    def _fold(self) -> None:
        kept = []
        for epoch, left_now, left in self._retired:
            # In this order: a call that still holds the epoch may succeed in between, one that is gone cannot.
            gone, now = epoch() is None, left_now()
            self.successes += left - now
            if not gone:
                kept.append((epoch, left_now, now))
        self._retired = kept[-_MAX_RETIRED:]
