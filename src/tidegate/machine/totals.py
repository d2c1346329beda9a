"""How many calls a breaker has seen in all, by result. These numbers only grow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from weakref import ref

from tidegate.machine.epoch import CountWindow

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
