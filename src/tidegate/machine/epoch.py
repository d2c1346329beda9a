"""The counts of one stretch of a breaker's life, kept without a lock while all is well."""

from __future__ import annotations

import math
import sys
from itertools import repeat
from typing import NamedTuple

# `next()` on a C iterator is one indivisible step under the GIL, cheaper than a lock by far, and
# `repeat` tells how many are left without being consumed.
_PLENTY = sys.maxsize


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

    `admit()` and `ok()` are safe from any thread without a lock; the plain fields belong to the breaker's lock.
    A call keeps the epoch it was admitted in, so a late result lands there and changes nothing that is current.
    """

    __slots__ = (
        "_admitted",
        "_succeeded",
        "admit",
        "ends",
        "excluded",
        "failures",
        "left",
        "mark",
        "ok",
        "run",
        "run_before",
    )

    def __init__(self, ends: float, run_before: int = 0) -> None:
        self.ends = ends  # on the breaker's clock; a call at or after it takes the slow path
        self._admitted = repeat(None, _PLENTY)
        self._succeeded = repeat(None, _PLENTY)
        self.admit = self._admitted.__next__
        self.ok = self._succeeded.__next__
        self.left = self._succeeded.__length_hint__
        self.failures = 0
        self.excluded = 0
        self.run = self.run_before = run_before  # failures in a row; how many of them earlier epochs handed over
        self.mark = _PLENTY  # what was left at the last failure: a difference means that a success ended the run

    @property
    def requests(self) -> int:
        return _PLENTY - self._admitted.__length_hint__() - self.excluded

    @property
    def successes(self) -> int:
        return _PLENTY - self.left()

    @property
    def outstanding(self) -> int:
        return self.requests - self.successes - self.failures

    def fail(self) -> None:
        left = self.left()
        if left != self.mark:
            self.mark = left
            self.run = self.run_before = 0
        self.run += 1
        self.failures += 1

    @property
    def in_a_row(self) -> int:
        """Failures in a row up to now, those of earlier epochs included."""
        return self.run if self.left() == self.mark else 0

    @property
    def counts(self) -> Counts:
        left = self.left()
        row = self.run - self.run_before if left == self.mark else 0
        return Counts(self.requests, _PLENTY - left, self.failures, self.mark - left, row)


# What stands in for the epoch while the breaker is open or half-open: every call takes the slow path.
SHUT = Epoch(-math.inf)
